// The layout of reports. All functions are pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// Breaks `text` at spaces into lines of at most `columns`; words stay whole. Ends in a newline.
std::string Wrap(std::string_view text, size_t columns);

// Returns what a terminal shows of a line: the part after its last carriage return (progress bars),
// passed through MakePrintable() and cut to `max_bytes` between characters.
std::string Visible(std::string_view line, size_t max_bytes);

// Returns "  | line\n" for each line. Beyond `max_lines`, a note replaces the middle.
std::string Quote(const std::vector<std::string>& lines, size_t max_lines);

}  // namespace ddprun::launcher
