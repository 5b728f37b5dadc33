// What no key can say alone: required keys, and keys that must fit each other. Pure.
#pragma once

#include "trainer/config/config.h"
#include "trainer/config/diagnostic.h"
#include "trainer/config/entries.h"

namespace ddprun::trainer {

// Fills the defaults that follow from other keys: see the comments in config.h.
void FillDerivedDefaults(const Entries& entries, Config* config);

// REQUIRES: every entry is in `config`, and FillDerivedDefaults was called.
void CrossCheck(const Entries& entries, const Config& config, Problems* problems);

}  // namespace ddprun::trainer
