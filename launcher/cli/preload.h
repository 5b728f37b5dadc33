// --preload: a worker template for Python scripts, which imports modules once on a node.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/cli/target.h"

namespace ddprun::launcher {

// The program of the template, which Python runs (python_template.py).
extern const std::string_view kPythonTemplate;

// Adds to `target` the command of a template that imports `modules`. The error kUsage means that
// the target is no Python script or module.
Status AddPreload(const std::vector<std::string>& modules, Target& target);

// Reads names of Python modules that are separated by commas.
bool ReadModules(std::string_view text, std::vector<std::string>& out);

}  // namespace ddprun::launcher
