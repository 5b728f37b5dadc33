// The folder that a run leaves behind, with the config that it really used.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "trainer/config/config.h"

namespace ddprun::trainer {

constexpr const char* kResolvedConfig = "config.resolved.json";  // in a run folder

// Held by the process that has it until it ends: no other run writes into it.
struct RunFolder {
  std::string path;  // as run.output_dir says: relative to the working directory, or absolute
  std::string name;  // run.name, or the date and time
  std::string config_hash;  // of config.resolved.json
  UniqueFd lock = {};
};

// Makes the folder and writes config.resolved.json into it. A folder that exists is never touched:
// the new one gets -2, -3 ... at its end. `unix_seconds` is the start of the run; `jobs` are names
// of the job it belongs to (FindRunFolder). Call it on rank 0 only. Errors: a folder that cannot be
// made or written (kFailed, "run-folder").
Result<RunFolder> MakeRunFolder(const Config& config,
                                double unix_seconds,
                                std::span<const std::string> jobs = {});

// Takes up a folder that MakeRunFolder made, for a run that goes on in it; its name stays. Waits
// for a process that holds it and may be at its end. Errors: another run holds it ("run-in-use"),
// or it cannot be written ("run-folder").
Result<RunFolder> TakeUpRunFolder(const std::string& path,
                                  const Config& config,
                                  std::span<const std::string> jobs,
                                  std::chrono::milliseconds patience = std::chrono::seconds(10));

// The folder of a run of this config that belongs to one of the jobs; "" for none.
std::string FindRunFolder(const Config& config, std::span<const std::string> jobs);

// The folders that runs of this config's run.name have made, in the order of their numbers.
// REQUIRES: a name, where there is a place for it.
std::vector<std::string> RunFoldersOfName(const Config& config);

// Where a run has its checkpoints: in its folder, or in a folder of its name in checkpoint.dir.
std::string CheckpointFolderOf(const std::string& run, const std::string& checkpoint_dir);

// UTC, without characters that a file system dislikes: "2026-11-21T02-30-00".
std::string RunName(double unix_seconds);

// 16 hexadecimal digits that tell two texts apart (FNV-1a, not cryptographic).
std::string ConfigHash(std::string_view text);

}  // namespace ddprun::trainer
