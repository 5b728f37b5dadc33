// The folder that a run leaves behind, with the config that it really used.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "trainer/config/config.h"

namespace ddprun::trainer {

struct RunFolder {
  std::string path;  // as run.output_dir says: relative to the working directory, or absolute
  std::string name;  // run.name, or the date and time
  std::string config_hash;  // of config.resolved.json
};

// Makes the folder and writes config.resolved.json into it. A folder that exists is never touched:
// the new one gets -2, -3 ... at its end. `unix_seconds` is the start of the run. Call it on rank 0
// only. Errors: a folder that cannot be made or written (kFailed, "run-folder").
Result<RunFolder> MakeRunFolder(const Config& config, double unix_seconds);

// UTC, without characters that a file system dislikes: "2026-11-21T02-30-00".
std::string RunName(double unix_seconds);

// 16 hexadecimal digits that tell two texts apart (FNV-1a, not cryptographic).
std::string ConfigHash(std::string_view text);

}  // namespace ddprun::trainer
