#include "launcher/output/line_buffer.h"

#include <utility>

namespace ddprun::launcher {

std::string LineBuffer::Feed(std::string_view bytes) {
  Keep(bytes);
  partial_ += bytes;
  size_t end = partial_.find_last_of("\n\r");
  if (end == std::string::npos && partial_.size() <= kMaxPartialBytes) return "";
  if (end == std::string::npos) end = partial_.size() - 1;
  std::string ready = partial_.substr(0, end + 1);
  partial_.erase(0, end + 1);
  return ready;
}

std::string LineBuffer::TakePartial() {
  return std::exchange(partial_, "");
}

std::vector<std::string> LineBuffer::LastLines() const {
  std::vector<std::string> lines(lines_.begin(), lines_.end());
  if (!line_.empty()) lines.push_back(line_);
  if (lines.size() > max_lines_) lines.erase(lines.begin());
  return lines;
}

void LineBuffer::Keep(std::string_view bytes) {
  for (const char c : bytes) {
    if (c == '\n') {
      KeepLine();
    } else if (c == '\r') {
      // Only a following byte tells "\r\n" from a progress bar's return to the line's start.
      overwrite_ = true;
    } else {
      if (overwrite_) line_.clear();
      overwrite_ = false;
      if (line_.size() < kMaxKeptLineBytes) line_ += c;
    }
  }
}

void LineBuffer::KeepLine() {
  lines_.push_back(std::exchange(line_, ""));
  overwrite_ = false;
  if (lines_.size() > max_lines_) lines_.pop_front();
}

}  // namespace ddprun::launcher
