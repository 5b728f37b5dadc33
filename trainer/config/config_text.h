// Texts that are generated from the key table. Pure.
#pragma once

#include <string>
#include <string_view>

#include "trainer/config/config.h"

namespace ddprun::trainer {

// Returns config.resolved.json with all keys. ReadConfig() reads it to an equal Config.
std::string WriteResolvedConfig(const Config& config);

// Returns the JSON Schema (draft 2020-12) of a config file, for editors.
std::string WriteSchema();

// Returns docs/config.md.
std::string WriteConfigDoc();

// Returns that page's text about `name` for a terminal. `name` is "section.key", a key of any
// section, or another tool's name. For a name without key, returns a hint; "" means unknown.
std::string ExplainKey(std::string_view name);

}  // namespace ddprun::trainer
