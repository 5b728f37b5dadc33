// Everything that is generated from the key table. Pure.
#pragma once

#include <string>
#include <string_view>

#include "trainer/config/config.h"

namespace ddprun::trainer {

// Every key with its value, as JSON that ReadConfig reads to an equal Config; for
// config.resolved.json.
std::string WriteResolvedConfig(const Config& config);

// JSON Schema (draft 2020-12) of a config file, for editors.
std::string WriteSchema();

// docs/config.md.
std::string WriteConfigDoc();

// What that page says of the keys that are meant by `name`, for a terminal: "section.key", a key of
// any section, or what other tools call it. What takes the place of a key that is not there; "":
// nothing is known of it.
std::string ExplainKey(std::string_view name);

}  // namespace ddprun::trainer
