// Renders errors for people who read standard error on a terminal.
#pragma once

#include <string>

#include <ddprun/error.h>
#include "base/env.h"

namespace ddprun {

// Returns whether standard error is a terminal that shows colours, and NO_COLOR does not forbid it.
bool WantsColor(const Environment& env);

// Returns the text of Render() with its title bars in red.
std::string RenderInColor(const Error& error);

// Returns the text for standard error, in colour if WantsColor().
std::string RenderForTerminal(const Error& error, const Environment& env);

}  // namespace ddprun
