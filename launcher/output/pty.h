// A terminal for a worker whose output we show on ours.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun::launcher {

struct Pty {
  UniqueFd ours;     // reads what is written; EIO once nobody holds the other end
  UniqueFd workers;  // a terminal: isatty() holds, programs write whole lines and progress bars
};

// Passes bytes on unchanged: the real terminal behind us does the processing. Its size is that of
// the terminal `like`, less the columns that `label`, which may have colours, takes of each line:
// a progress bar as wide as the rest fits.
Result<Pty> OpenPty(int like, std::string_view label = "");

// Once more, when that may have changed. `terminal`: either end.
Status FollowSize(int terminal, int like, std::string_view label);

}  // namespace ddprun::launcher
