// Reads a config file, which is JSON with comments and trailing commas, and its overrides, and
// checks all values. All errors of a file (kUsage) come together, with place and accepted values.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "trainer/config/assign_value.h"
#include "trainer/config/config.h"
#include "trainer/config/source.h"

namespace ddprun::trainer {

// `overrides` are arguments of --set: "optimizer.learning_rate=1e-4"; the last one wins. Input
// paths become absolute: relative to the file's folder, or to the working directory for an
// override. If the config has errors, `*refused` gets what could be read.
Result<Config> ReadConfig(const std::string& path,
                          const std::vector<std::string>& overrides,
                          const Environment& environment,
                          Config* refused = nullptr);

// The part of ReadConfig() that uses no file system.
Result<Config> ReadConfigText(const Source& file,
                              const std::vector<std::string>& overrides,
                              const ReadContext& context,
                              Config* refused = nullptr);

}  // namespace ddprun::trainer
