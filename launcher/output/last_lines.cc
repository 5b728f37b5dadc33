#include "launcher/output/last_lines.h"

#include <algorithm>

namespace ddprun::launcher {

namespace {

constexpr char kEscape = '\x1b';

// Length of the control sequence that `text` begins with: "ESC [ parameters letter" is what
// programs colour their text with.
size_t SequenceLength(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 1;
  size_t end = 2;
  while (end < text.size() && text[end] >= 0x20 && text[end] < 0x40) ++end;
  return std::min(end + 1, text.size());
}

std::string Seen(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  line = line.substr(line.find_last_of('\r') + 1);
  std::string seen;
  for (size_t i = 0; i < line.size() && seen.size() < kMaxLineBytes;) {
    if (line[i] == kEscape) {
      i += SequenceLength(line.substr(i));
    } else {
      seen += line[i++];
    }
  }
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
    lines.push_back(Seen(first ? bytes : bytes.substr(end + 1)));
    if (first) break;
    bytes = bytes.substr(0, end);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

}  // namespace ddprun::launcher
