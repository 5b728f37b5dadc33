// Makes --help, the man page and completion scripts from the table of flags.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/flag.h"

namespace ddprun::launcher {

// Returns the text of --help, at most 80 columns wide.
std::string HelpText(std::span<const Flag> flags, std::span<const Subcommand> subcommands = {});

// Returns "-t, --tee WHICH", with the first short name only.
std::string FlagSynopsis(const Flag& flag);

// Breaks `text` into lines of at most `width` columns.
std::vector<std::string> WrapText(std::string_view text, size_t width);

// Returns a script for bash 4 and later, which belongs in bash-completion/completions/ddprun.
std::string BashCompletion(std::span<const Flag> flags, std::span<const Subcommand> subcommands);

// Returns a script for zsh, to install as _ddprun in a folder of $fpath.
std::string ZshCompletion(std::span<const Flag> flags);

// Returns the man page, in roff's man macros.
std::string ManPage(std::span<const Flag> flags, std::span<const Subcommand> subcommands);

}  // namespace ddprun::launcher
