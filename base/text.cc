#include "base/text.h"

#include <algorithm>

namespace ddprun {

namespace {

constexpr char kEscape = '\x1b';

// Of the sequence that `text` begins with.
size_t SequenceLength(std::string_view text) {
  const char kind = text.size() > 1 ? text[1] : '\0';
  if (kind == '[') {  // colours and movements: parameters, then a letter
    size_t end = 2;
    while (end < text.size() && text[end] >= 0x20 && text[end] < 0x40) ++end;
    return std::min(end + 1, text.size());
  }
  if (kind == ']' || kind == 'P' || kind == '^' || kind == '_') {  // titles and other strings
    const size_t end = text.find_first_of("\a\x1b\n", 2);
    if (end == std::string_view::npos || text[end] == '\n') return 2;
    return std::min(text[end] == kEscape ? end + 2 : end + 1, text.size());
  }
  if (kind == '(' || kind == ')') return std::min<size_t>(3, text.size());  // character sets
  return 1;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // Control characters beyond ASCII are two bytes of UTF-8.
    const bool beyond = byte == 0xC2 && i + 1 < text.size() &&
                        (static_cast<unsigned char>(text[i + 1]) & 0xE0) == 0x80;
    if (text[i] == kEscape) {
      i += SequenceLength(text.substr(i));
    } else if (beyond) {
      shown += '?';
      i += 2;
    } else {
      const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
      shown += control ? '?' : text[i];
      ++i;
    }
  }
  return shown;
}

bool IsStackFrame(std::string_view line) {
  constexpr std::string_view kFrame = "frame #";
  if (!line.starts_with(kFrame)) return false;
  line.remove_prefix(kFrame.size());
  const size_t digits = line.find_first_not_of("0123456789");
  return digits != std::string_view::npos && digits > 0 && line[digits] == ':';
}

}  // namespace ddprun
