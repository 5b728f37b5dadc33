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

// Held by the process that has it until it ends: no other run writes into it or into its folder of
// checkpoints.
struct RunFolder {
  std::string path = {};  // as run.output_dir says: relative to the working directory, or absolute
  std::string name = {};  // run.name, or the date and time
  std::string config_hash = {};  // of config.resolved.json
  std::string checkpoints = {};  // CheckpointFolderOf() it
  std::string id = {};           // a word of this run alone
  // The checkpoint that the run began from, absolute: until it has saved one of its own, it goes on
  // from there. Empty: none.
  std::string origin = {};
  bool made = false;  // in this start
  UniqueFd lock = {};
  UniqueFd checkpoints_lock = {};
};

// A folder comes in two steps, both on rank 0 only: first one that exists is opened, which changes
// nothing, or a new one is made; then, once it is known that the run goes on, it is kept: what the
// run is, is written into it.

// Makes the folder. One that exists is never touched, nor are its checkpoints: the new one gets -2,
// -3 ... at its end. `unix_seconds` is the start of the run; `origin`: as of RunFolder. Error: it
// cannot be made ("run-folder").
Result<RunFolder> MakeRunFolder(const Config& config,
                                double unix_seconds,
                                const std::string& origin = "");

// One that was kept before, for a run that goes on in it; its name stays. Waits for a process that
// holds it and may be at its end. Errors: another run holds it ("run-in-use") or has its
// checkpoints
// ("checkpoints-of-another-run"), or it cannot be read ("run-folder").
Result<RunFolder> OpenRunFolder(const std::string& path,
                                const Config& config,
                                std::chrono::milliseconds patience = std::chrono::seconds(10));

// Writes config.resolved.json and `jobs`, names of the job that the run belongs to (FindRunFolder).
Status KeepRunFolder(RunFolder& folder, const Config& config, std::span<const std::string> jobs);

// Removes a folder that was made and is not kept.
void WithdrawRunFolder(RunFolder& folder);

// The folder of a run of this config that belongs to one of the jobs; "" for none. Error: one of
// those that may be it cannot be read ("run-folder").
Result<std::string> FindRunFolder(const Config& config, std::span<const std::string> jobs);

// The folders that runs of this config's run.name have made, in the order of their numbers.
// REQUIRES: a name, where there is a place for it. Error: as above.
Result<std::vector<std::string>> RunFoldersOfName(const Config& config);

// Whether run.resume names a folder.
bool ResumesPath(const Config& config);

// Where a run has its checkpoints: in its folder, or in a folder of its name in checkpoint.dir.
std::string CheckpointFolderOf(const std::string& run, const std::string& checkpoint_dir);

// UTC, without characters that a file system dislikes: "2026-11-21T02-30-00".
std::string RunName(double unix_seconds);

// 16 hexadecimal digits that tell two texts apart (FNV-1a, not cryptographic).
std::string ConfigHash(std::string_view text);

}  // namespace ddprun::trainer
