// The folder of a run's results, with the config that it really used.
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

// A run's folder. Its process locks it until the process ends, so that no other run writes into it
// or into its folder of checkpoints.
struct RunFolder {
  std::string path = {};  // like run.output_dir: relative to the working directory, or absolute
  std::string name = {};  // run.name, or the date and time
  std::string config_hash = {};  // of config.resolved.json
  std::string checkpoints = {};  // CheckpointFolderOf() it
  std::string id = {};           // unique to this run
  // The checkpoint from which the run began, absolute. The run resumes from it until it has saved a
  // checkpoint of its own. Empty: none.
  std::string origin = {};
  bool made = false;  // in this start
  UniqueFd lock = {};
  UniqueFd checkpoints_lock = {};
};

// A run gets its folder in two steps, both on rank 0 only. First, it opens an existing folder,
// which changes nothing, or makes a new one. Later, when it is certain that the run begins,
// KeepRunFolder() writes its description into it.

// Makes a new folder. An existing one and its checkpoints do not change: the new one gets -2, -3
// ... at its end. `unix_seconds` is the start of the run; `origin`: see RunFolder. Error: it cannot
// be made ("run-folder").
Result<RunFolder> MakeRunFolder(const Config& config,
                                double unix_seconds,
                                const std::string& origin = "");

// Opens the folder of an earlier start, for a run that resumes in it. Waits at most `patience` for
// a process that locks it and may be about to end. Errors: another run locks it ("run-in-use") or
// has its checkpoints ("checkpoints-of-another-run"), or it cannot be read ("run-folder").
Result<RunFolder> OpenRunFolder(const std::string& path,
                                const Config& config,
                                std::chrono::milliseconds patience = std::chrono::seconds(10));

// Writes config.resolved.json and `jobs`, the names of the job that the run belongs to
// (FindRunFolder).
Status KeepRunFolder(RunFolder& folder, const Config& config, std::span<const std::string> jobs);

// Removes a new folder that KeepRunFolder() has not kept.
void WithdrawRunFolder(RunFolder& folder);

// Returns the folder of a run of this config that belongs to one of the jobs; "" if there is none.
// Error: a folder that may be it cannot be read ("run-folder").
Result<std::string> FindRunFolder(const Config& config, std::span<const std::string> jobs);

// Returns the names of the jobs to which a run's folder belongs, and its id; none if there is no
// such folder. Error: it cannot be read ("run-folder").
Result<std::vector<std::string>> JobsOfRunFolder(const std::string& folder);

// Returns the folders that runs with this config's run.name have made, in the order of their
// numbers. REQUIRES: run.name is set if run.output_dir contains {name}. Error: see FindRunFolder().
Result<std::vector<std::string>> RunFoldersOfName(const Config& config);

// Returns whether run.resume names a folder.
bool ResumesPath(const Config& config);

// Returns the folder of a run's checkpoints: in the run's folder, or a folder with its name in
// checkpoint.dir.
std::string CheckpointFolderOf(const std::string& run, const std::string& checkpoint_dir);

// Returns the time in UTC, without characters that file systems refuse: "2026-11-21T02-30-00".
std::string RunName(double unix_seconds);

// Returns 16 hexadecimal digits, which differ for different texts (FNV-1a, not cryptographic).
std::string ConfigHash(std::string_view text);

}  // namespace ddprun::trainer
