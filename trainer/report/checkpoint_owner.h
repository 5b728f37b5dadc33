// The owner of a folder of checkpoints outside the run's own folder. A file in the folder names its
// run, so that runs of other folders, which may have this name, do not use it.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun::trainer {

// Reads a file. Returns nullopt if there is none, or if its folder belongs to another user and it
// may not be read. Error: it cannot be read ("run-folder").
Result<std::optional<std::string>> ReadIfExists(const std::string& path);

// Locks the file, and waits for another process that holds it. Error: a process still holds it
// after `patience` ("run-in-use"). On a file system without locks, locks nothing.
Status LockFile(const UniqueFd& file,
                const std::string& folder,
                std::chrono::milliseconds patience);

// A run: its unique id and its folder.
struct CheckpointOwner {
  std::string run;
  std::string run_folder;  // absolute
};

// Returns the folder's owner; nullopt if no run has claimed it.
Result<std::optional<CheckpointOwner>> OwnerOf(const std::string& folder);

// Claims the folder for a new run, and holds it. Returns nullopt if another run owns it or it is
// not empty. If it cannot be written to, holds nothing, because each save then reports this.
std::optional<UniqueFd> ClaimNewFolder(const std::string& folder, const CheckpointOwner& owner);

// Withdraws the claim of a run that did not begin: removes the folder if it contains nothing else.
void WithdrawClaim(const std::string& folder);

// Holds the folder for a run that resumes, without changing it. Returns an invalid descriptor if no
// run owns it. Error: another run has it ("checkpoints-of-another-run", "run-in-use").
Result<UniqueFd> HoldOwnFolder(const std::string& folder,
                               const std::string& run,
                               std::chrono::milliseconds patience);

// Writes the owner into the folder, if the folder exists and the run holds it or it has no owner.
// If it cannot be written to, holds nothing. Error: see HoldOwnFolder().
Status KeepOwnFolder(const std::string& folder, const CheckpointOwner& owner, UniqueFd& held);

}  // namespace ddprun::trainer
