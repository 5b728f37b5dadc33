#include "launcher/output/line_label.h"

#include <algorithm>

namespace ddprun::launcher {

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

}  // namespace ddprun::launcher
