#include "launcher/output/last_lines.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace ddprun::launcher {

namespace {

std::string VisibleLine(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  line = line.substr(line.find_last_of('\r') + 1);
  // Twice the bytes, because MakePrintable() may drop many of them.
  std::string seen = MakePrintable(line.substr(0, 2 * kMaxLineBytes));
  seen.resize(std::min(seen.size(), kMaxLineBytes));
  return seen;
}

}  // namespace

void Tail::Add(std::string_view bytes) {
  if (bytes.size() > kBytes) {
    bytes_.clear();
    bytes.remove_prefix(bytes.size() - kBytes);
    cut_ = true;
  }
  bytes_ += bytes;
  if (bytes_.size() <= 2 * kBytes) return;
  bytes_.erase(0, bytes_.size() - kBytes);
  cut_ = true;
}

std::vector<std::string> LastLines(std::string_view bytes, bool cut, size_t max_lines) {
  std::vector<std::string> lines;
  if (bytes.ends_with('\n'))
    bytes.remove_suffix(1);
  else if (bytes.empty())
    return lines;
  while (lines.size() < max_lines) {
    const size_t end = bytes.find_last_of('\n');
    const bool first = end == std::string_view::npos;
    if (first && cut && !lines.empty()) break;
    std::string line = VisibleLine(first ? bytes : bytes.substr(end + 1));
    if (!IsStackFrame(line)) lines.push_back(std::move(line));
    if (first) break;
    bytes = bytes.substr(0, end);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

}  // namespace ddprun::launcher
