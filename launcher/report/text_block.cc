#include "launcher/report/text_block.h"

#include <algorithm>

#include "base/text.h"

namespace ddprun::launcher {

namespace {

constexpr size_t kMaxLineBytes = 500;
// If a text is cut, a quarter of the lines that remain are its beginning.
constexpr size_t kHeadPart = 4;

}  // namespace

std::string Wrap(std::string_view text, size_t columns) {
  std::string result;
  while (text.size() > columns) {
    size_t at = text.rfind(' ', columns);
    if (at == std::string_view::npos || at == 0) at = text.find(' ', 1);
    if (at == std::string_view::npos) break;
    result += std::string(text.substr(0, at)) + "\n";
    text.remove_prefix(at + 1);
  }
  return result + std::string(text) + "\n";
}

std::string Visible(std::string_view line, size_t max_bytes) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  if (const size_t at = line.rfind('\r'); at != std::string_view::npos) line = line.substr(at + 1);
  const std::string shown = MakePrintable(line);
  if (shown.size() <= max_bytes) return shown;
  line = shown;
  size_t size = max_bytes;
  // In UTF-8, bytes 10xxxxxx continue a character.
  while (size > 0 && (static_cast<unsigned char>(line[size]) & 0xC0) == 0x80) --size;
  return std::string(line.substr(0, size)) + "...";
}

std::string Quote(const std::vector<std::string>& lines, size_t max_lines) {
  std::string text;
  const bool cut = lines.size() > max_lines;
  const size_t head = cut ? max_lines / kHeadPart : lines.size();
  for (size_t i = 0; i < head; ++i) text += "  | " + Visible(lines[i], kMaxLineBytes) + "\n";
  if (!cut) return text;
  const size_t tail = max_lines - head;
  text += "  | ... (" + std::to_string(lines.size() - max_lines) + " lines left out)\n";
  for (size_t i = lines.size() - tail; i < lines.size(); ++i) {
    text += "  | " + Visible(lines[i], kMaxLineBytes) + "\n";
  }
  return text;
}

}  // namespace ddprun::launcher
