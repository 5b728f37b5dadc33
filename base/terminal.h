// Errors for people who read standard error on a terminal.
#pragma once

#include <string>

#include "base/env.h"
#include "base/error.h"

namespace ddprun {

// Whether standard error is a terminal that shows colours, and nobody asks for none (NO_COLOR).
bool WantsColor(const Environment& env);

// Render() with its title bars in red.
std::string RenderInColor(const Error& error);

// For standard error.
std::string RenderForTerminal(const Error& error, const Environment& env);

}  // namespace ddprun
