// Completion scripts for shells, made from the table of flags.
#pragma once

#include <span>
#include <string>

#include "launcher/cli/flag.h"

namespace ddprun::launcher {

// For bash 4 and later: to be sourced, or installed as bash-completion/completions/ddprun.
std::string BashCompletion(std::span<const Flag> flags);

// For zsh: to be installed as _ddprun in a folder of $fpath.
std::string ZshCompletion(std::span<const Flag> flags);

}  // namespace ddprun::launcher
