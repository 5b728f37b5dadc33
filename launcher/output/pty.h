// A terminal for a worker whose output we show on ours.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun::launcher {

struct Pty {
  UniqueFd ours;     // reads what is written; EIO once nobody holds the other end
  UniqueFd workers;  // a terminal: isatty() holds, programs write whole lines and progress bars
};

// Passes bytes on unchanged: the real terminal behind us does the processing. Its size is that of
// the terminal `like`.
Result<Pty> OpenPty(int like);

}  // namespace ddprun::launcher
