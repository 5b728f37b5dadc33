// `ddprun explain NAME`: what a message means and what to do, wherever the program is installed.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace ddprun::launcher {

// docs/errors.md, which is part of the program.
extern const std::string_view kErrorsPage;

// The section of `page` (Markdown) whose third-level heading is `name`, which may stand behind a
// file's name and '#'. Empty: all names, by second-level heading. Error: no section of this name.
Result<std::string> Explain(std::string_view name, std::string_view page = kErrorsPage);

}  // namespace ddprun::launcher
