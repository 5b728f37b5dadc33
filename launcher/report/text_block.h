// Pure: the pieces that reports are laid out with.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// Broken at spaces so that no line is longer than `columns` where words allow it; ends in a
// newline.
std::string Wrap(std::string_view text, size_t columns);

// What a terminal would show of a line: the part behind its last carriage return (progress bars),
// Printable, cut to `max_bytes` at a character's border.
std::string Visible(std::string_view line, size_t max_bytes);

// "  | line\n" of each, the middle left out (and said so) when there are more than `max_lines`.
std::string Quote(const std::vector<std::string>& lines, size_t max_lines);

}  // namespace ddprun::launcher
