// Flags of other launchers, which people type first, and what they get here.
#pragma once

#include <span>
#include <string_view>

namespace ddprun::launcher {

struct KnownFlags {
  std::string_view words;   // without dashes, with underscores, separated by blanks
  std::string_view answer;  // sentences for the user
};

std::span<const KnownFlags> AllKnownFlags();

// `name`: canonical, as in the table. Empty: no other launcher's that is known here.
std::string_view AnswerFor(std::string_view name);

}  // namespace ddprun::launcher
