// Which run a folder of checkpoints outside of the run's own folder belongs to. A file in it says
// so: runs of other folders, which may have the same name, leave it alone.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun::trainer {

// Text of a file; nullopt: there is none, or it is another user's, who lets nobody read it. Error:
// it cannot be read ("run-folder").
Result<std::optional<std::string>> ReadIfThere(const std::string& path);

// Waits until no other process holds the file. Error: one does ("run-in-use"). Nothing is held on a
// file system without locks.
Status LockFile(const UniqueFd& file,
                const std::string& folder,
                std::chrono::milliseconds patience);

// A run, by a word that no other has, and its folder.
struct CheckpointOwner {
  std::string run;
  std::string run_folder;  // absolute
};

// Nothing where no run has said that the folder is its own.
Result<std::optional<CheckpointOwner>> OwnerOf(const std::string& folder);

// For a new run: makes the folder its own and holds it. Nothing where it is another run's or
// something is in it. Where it cannot be written to, nothing is held: each save will say so.
std::optional<UniqueFd> ClaimNewFolder(const std::string& folder, const CheckpointOwner& owner);

// Of a run that did not begin: the folder is removed where nothing else is in it.
void WithdrawClaim(const std::string& folder);

// For a run that is taken up; changes nothing. Holds the folder; an invalid descriptor where nobody
// has said that it is his. Error: another run has it ("checkpoints-of-another-run", "run-in-use").
Result<UniqueFd> HoldOwnFolder(const std::string& folder,
                               const std::string& run,
                               std::chrono::milliseconds patience);

// Says in it that the folder, if it is there, is the run's, which holds it or finds it without an
// owner. Where it cannot be written to, nothing is held. Error: as above.
Status KeepOwnFolder(const std::string& folder, const CheckpointOwner& owner, UniqueFd& held);

}  // namespace ddprun::trainer
