// finished.json in a run's folder: this very run has ended well, and need not be done again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ddprun::launcher {

// What makes two runs the same.
struct RunIdentity {
  std::string config;                  // the text of the config file
  std::vector<std::string> overrides;  // all of them, in their order
  int workers = 1;
};

// The folder in `sweep_folder` whose mark says that it was the same run; nothing when none does.
std::optional<std::string> FindFinished(const std::string& sweep_folder,
                                        const RunIdentity& identity);

// All folders in it with a mark, in the order of their names.
std::vector<std::string> FinishedFolders(const std::string& sweep_folder);

// Call it after exit code 0 only. The mark appears whole or not at all, also when the machine
// fails meanwhile.
Status MarkFinished(const std::string& run_folder, const RunIdentity& identity);

}  // namespace ddprun::launcher
