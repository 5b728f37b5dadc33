// Everything that is generated from the key table. Pure.
#pragma once

#include <string>

#include "trainer/config/config.h"

namespace ddprun::trainer {

// Every key with its value, as JSON that ReadConfig reads to an equal Config; for
// config.resolved.json.
std::string WriteResolvedConfig(const Config& config);

// JSON Schema (draft 2020-12) of a config file, for editors.
std::string WriteSchema();

// docs/config.md.
std::string WriteConfigDoc();

}  // namespace ddprun::trainer
