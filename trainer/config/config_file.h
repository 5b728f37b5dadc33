// Loads a config file's text, with the message for each way that this can fail.
#pragma once

#include <string>

#include "base/result.h"
#include "trainer/config/source.h"

namespace ddprun::trainer {

// No config needs more; a data file that is named by mistake is often larger.
constexpr size_t kMaxConfigBytes = 1 << 20;

// The text without a byte order mark. Errors: not found (with the nearest file name), a directory,
// not readable, larger than kMaxConfigBytes.
Result<Source> LoadConfigFile(const std::string& path);

}  // namespace ddprun::trainer
