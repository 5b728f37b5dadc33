// The job of a model folder, such as model/ of a run or a folder of the Hugging Face Hub.
#pragma once

#include <string>

#include "base/env.h"
#include "trainer/worker/saved_job.h"

namespace ddprun::trainer {

// Returns whether the path is the folder of a model, and no checkpoint.
bool IsModelFolder(const std::string& path);

// Opens the folder's model with the config at `config`; empty: that of the run whose model/ the
// folder is. The columns of tables, the size of images and the names of classes are the folder's.
// Throws Failure.
SavedJob OpenExportedJob(const std::string& folder,
                         const std::string& config,
                         const Environment& environment);

}  // namespace ddprun::trainer
