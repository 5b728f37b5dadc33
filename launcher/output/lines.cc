#include "launcher/output/lines.h"

#include <algorithm>
#include <utility>

namespace ddprun::launcher {

std::string LineBuffer::Feed(std::string_view bytes) {
  // Searches only the new bytes, because partial_ has no end of a line.
  const size_t end = bytes.find_last_of("\n\r");
  if (end == std::string_view::npos) {
    partial_ += bytes;
    return partial_.size() > kMaxPartialBytes ? TakePartial() : "";
  }
  std::string ready = TakePartial();
  ready += bytes.substr(0, end + 1);
  partial_ = bytes.substr(end + 1);
  return ready;
}

std::string LineBuffer::TakePartial() {
  return std::exchange(partial_, "");
}

std::string LineLabel::Put(std::string_view bytes) {
  if (label_.empty()) return std::string(bytes);
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 4);
  while (!bytes.empty()) {
    const char first = bytes.front();
    const bool ends_return = place_ == Place::kAfterReturn && first == '\n';
    if (place_ != Place::kWithin && first != '\r' && !ends_return) text += label_;
    const size_t end = std::min(bytes.find_first_of("\n\r"), bytes.size() - 1);
    text += bytes.substr(0, end + 1);
    place_ = bytes[end] == '\n'   ? Place::kLineStart
             : bytes[end] == '\r' ? Place::kAfterReturn
                                  : Place::kWithin;
    bytes.remove_prefix(end + 1);
  }
  return text;
}

std::string LineFilter::Feed(std::string_view bytes) {
  std::string matching;
  while (!bytes.empty()) {
    const size_t end = bytes.find_first_of("\n\r");
    line_ += bytes.substr(0, end);
    if (end != std::string_view::npos || line_.size() > kMaxLineBytes) EndLine(matching);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
  }
  return matching;
}

std::string LineFilter::Finish() {
  std::string matching;
  EndLine(matching);
  return matching;
}

void LineFilter::EndLine(std::string& matching) {
  const bool found = std::any_of(needles_.begin(), needles_.end(), [&](const std::string& needle) {
    return line_.find(needle) != std::string::npos;
  });
  if (found && !line_.empty()) matching += label_ + line_ + "\n";
  line_.clear();
}

}  // namespace ddprun::launcher
