// Renders errors for people who read standard error on a terminal.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <string>

#include <ddprun/error.h>
#include "base/env.h"
#include "base/result.h"

namespace ddprun {

// Returns whether `fd` is a terminal that knows escape sequences (TERM is not "dumb").
bool IsTerminal(int fd, const Environment& env);

// Returns whether `fd`, standard error if none is given, is a terminal that shows colours, and
// NO_COLOR does not forbid it.
bool WantsColor(const Environment& env, int fd = STDERR_FILENO);

struct TextStyle {
  bool color = false;   // only of the title bar
  size_t columns = 92;  // of the title bar; longer sentences are wrapped
};

// Returns the style for `fd`: a terminal's width if that is less, down to 40 columns.
TextStyle StyleOf(int fd, bool color);

// Returns the text of Render(error) in the style.
std::string Render(const Error& error, const TextStyle& style);

// Returns the text for standard error, in colour if WantsColor().
std::string RenderForTerminal(const Error& error, const Environment& env);

// Returns an error if text that was printed to standard output is lost, as on a full disk. A reader
// that has ended wants no more: no error.
Status FlushStandardOutput();

// Returns the exit code. Prints the error, if there is one, also of lost output.
int ExitCodeOf(const Result<int>& result, const Environment& env);

}  // namespace ddprun
