// Text of others, made fit to be shown.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

// Without what a terminal would obey: escape sequences go, other control characters but tabs and
// line ends become '?'. UTF-8 stays.
std::string Printable(std::string_view text);

// A line of a C++ stack as LibTorch's errors carry it: "frame #3: c10::Error::Error(...)".
bool IsStackFrame(std::string_view line);

}  // namespace ddprun
