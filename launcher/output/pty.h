// A terminal for a worker whose output ddprun shows on its own terminal.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun::launcher {

struct Pty {
  UniqueFd ours;     // reads what the worker writes; EIO if no process holds the other end
  UniqueFd workers;  // a terminal: isatty() holds, programs write whole lines and progress bars
};

// Passes bytes on unchanged: the real terminal behind us does the processing. Its size is that of
// the terminal `like`, less the columns that `label`, which may have colours, takes of each line:
// a progress bar as wide as the rest fits.
Result<Pty> OpenPty(int like, std::string_view label = "");

// Sets the size again, because `like` may have changed. `terminal` is either end.
Status FollowSize(int terminal, int like, std::string_view label);

}  // namespace ddprun::launcher
