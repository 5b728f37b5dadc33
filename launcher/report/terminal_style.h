// How text is laid out for what a descriptor leads to.
#pragma once

#include "launcher/report/failure_report.h"

namespace ddprun::launcher {

// On a terminal that is narrower than usual, its width.
TextStyle TerminalStyle(int fd, bool color);

}  // namespace ddprun::launcher
