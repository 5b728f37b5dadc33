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

// Opens a terminal that passes bytes on unchanged, because ddprun's terminal processes them. Its
// size is that of the terminal `like` without the columns of `label`, which may have colours, so
// that a progress bar fits behind the label.
Result<Pty> OpenPty(int like, std::string_view label = "");

// Sets the size again, because `like` may have changed. `terminal` is either end.
Status FollowSize(int terminal, int like, std::string_view label);

}  // namespace ddprun::launcher
