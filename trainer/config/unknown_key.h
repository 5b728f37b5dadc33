// What to tell a user whose key or section does not exist: the word that was meant, what another
// tool's word is called here, or the section that the key belongs to. Pure.
#pragma once

#include <string_view>

#include "base/error.h"
#include "trainer/config/source.h"

namespace ddprun::trainer {

// `name` was found in the section `section`, which exists; `span` shows the name.
Error UnknownKey(std::string_view section, std::string_view name, const Span& span);

// `name` was found where a section is expected. `has_keys`: there are keys in it.
Error UnknownSection(std::string_view name, bool has_keys, const Span& span);

}  // namespace ddprun::trainer
