#include "launcher/output/pty.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <cerrno>

namespace ddprun::launcher {

Result<Pty> OpenPty(int like) {
  Pty pty;
  pty.ours.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!pty.ours.valid() || ::unlockpt(pty.ours.get()) != 0) {
    return SystemError("opening a pseudo-terminal", errno);
  }
  // Not by its name: another /dev/pts may be mounted in a container.
  pty.workers.reset(::ioctl(pty.ours.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios mode{};
  if (!pty.workers.valid() || ::tcgetattr(pty.workers.get(), &mode) != 0) {
    return SystemError("opening a pseudo-terminal", errno);
  }
  ::cfmakeraw(&mode);
  winsize size{};
  const bool sized = ::ioctl(like, TIOCGWINSZ, &size) == 0;
  if (::tcsetattr(pty.workers.get(), TCSANOW, &mode) != 0 ||
      (sized && ::ioctl(pty.workers.get(), TIOCSWINSZ, &size) != 0)) {
    return SystemError("setting up a pseudo-terminal", errno);
  }
  return pty;
}

}  // namespace ddprun::launcher
