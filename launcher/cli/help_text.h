// What is made of the table of flags: --help, the man page, completion scripts for shells.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/flag.h"

namespace ddprun::launcher {

// At most 80 columns wide.
std::string HelpText(std::span<const Flag> flags, std::span<const Subcommand> subcommands = {});

// "-t, --tee WHICH"; short names that stand for other launchers' are left out but for the first.
std::string FlagSynopsis(const Flag& flag);

// The words of `text` in lines of at most `width` columns.
std::vector<std::string> WrapText(std::string_view text, size_t width);

// For bash 4 and later: to be sourced, or installed as bash-completion/completions/ddprun.
std::string BashCompletion(std::span<const Flag> flags, std::span<const Subcommand> subcommands);

// For zsh: to be installed as _ddprun in a folder of $fpath.
std::string ZshCompletion(std::span<const Flag> flags);

// In the man macros of roff.
std::string ManPage(std::span<const Flag> flags, std::span<const Subcommand> subcommands);

}  // namespace ddprun::launcher
