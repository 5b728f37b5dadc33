#include <cerrno>
#include <cstring>

#include <ddprun/error.h>
#include "base/terminal.h"

namespace ddprun {

Error Error::While(std::string_view doing) && {
  what = "While " + std::string(doing) + ":\n" + what;
  return std::move(*this);
}

std::string ErrnoText(int error_number) {
  char buffer[256];
  // This is the GNU variant, which returns the text and may not use the buffer.
  return strerror_r(error_number, buffer, sizeof buffer);
}

Error SystemError(std::string_view what, int error_number) {
  return Error{.title = "SYSTEM ERROR",
               .what = std::string(what) + ": " + ErrnoText(error_number),
               .hint = error_number == EMFILE
                           ? "Raise the limit of open files, in this shell: ulimit -n 4096"
                       : error_number == EAGAIN && what.find("fork") != what.npos
                           ? "Raise the limit of this user's processes (ulimit -u), or end some."
                           : ""};
}

int ExitStatus(Code code) {
  switch (code) {
    case Code::kUsage:
    case Code::kStateDoesNotFit:
    case Code::kNoCheckpoint:
      return 2;
    case Code::kRendezvous:
    case Code::kAddressInUse:
    case Code::kCannotListen:
      return 3;
    case Code::kNotExecutable:
      return 126;
    case Code::kNotFound:
      return 127;
    case Code::kNotNeeded:
      return 0;
    case Code::kDeadlineExceeded:
    case Code::kRankLost:
    case Code::kDamaged:
    case Code::kFailed:
      return 1;
  }
  return 1;
}

std::string Render(const Error& error) {
  return Render(error, TextStyle{});
}

}  // namespace ddprun
