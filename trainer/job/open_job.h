// Opens what a config names.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "trainer/job/job.h"
#include "trainer/job/open_data.h"

namespace ddprun::trainer {

// Opens the model and the data that job.config names, and compares them with each other and with
// the weights. Leaves out parts that need a failed part.
void OpenParts(Job& job, const Attempt& attempt);

// Loads the plugin of report.plugin, if there is one. Throws Failure if it has no observer.
void RequireObserver(const Config& config);

// Reads the config, opens the module of its device, and calls OpenParts() and RequireObserver().
// `overrides` are "section.key=value", as after --set. Throws Failure.
Job OpenJob(const std::string& config_path,
            const std::vector<std::string>& overrides,
            const Environment& environment);

}  // namespace ddprun::trainer
