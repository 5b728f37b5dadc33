// Reads a config file: JSON with comments and trailing commas, overrides on top, every value
// checked. All errors of a file (kUsage) come at once, with place and what is accepted.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "trainer/config/assign_value.h"
#include "trainer/config/config.h"
#include "trainer/config/source.h"

namespace ddprun::trainer {

// `overrides` are the arguments of --set, "optimizer.learning_rate=1e-4"; the last one wins.
// Input paths become absolute: those of the file start at its folder, those of an override at the
// working directory. ${NAME} in a string is replaced from `environment`. `refused`, where given,
// takes what could be read of a config with errors.
Result<Config> ReadConfig(const std::string& path,
                          const std::vector<std::string>& overrides,
                          const Environment& environment,
                          Config* refused = nullptr);

// The part without a file system.
Result<Config> ReadConfigText(const Source& file,
                              const std::vector<std::string>& overrides,
                              const ReadContext& context,
                              Config* refused = nullptr);

}  // namespace ddprun::trainer
