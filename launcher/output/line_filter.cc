#include "launcher/output/line_filter.h"

#include <algorithm>

namespace ddprun::launcher {

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
