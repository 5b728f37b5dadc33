#include "launcher/output/pty.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <cctype>
#include <cerrno>

namespace ddprun::launcher {

namespace {

int LabelColumns(std::string_view label) {
  int columns = 0;
  bool escape = false;  // between ESC and the letter that ends the sequence
  for (const char c : label) {
    if (c == '\x1b') escape = true;
    const bool continues_a_letter = (static_cast<unsigned char>(c) & 0xC0) == 0x80;
    if (!escape && !continues_a_letter) ++columns;
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) escape = false;
  }
  return columns;
}

}  // namespace

Result<Pty> OpenPty(int like, std::string_view label) {
  Pty pty;
  pty.ours.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!pty.ours.valid() || ::unlockpt(pty.ours.get()) != 0) {
    return SystemError("opening a pseudo-terminal", errno);
  }
  // Not opened by its name, because a container may have another /dev/pts.
  pty.workers.reset(::ioctl(pty.ours.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios mode{};
  if (!pty.workers.valid() || ::tcgetattr(pty.workers.get(), &mode) != 0) {
    return SystemError("opening a pseudo-terminal", errno);
  }
  ::cfmakeraw(&mode);
  if (::tcsetattr(pty.workers.get(), TCSANOW, &mode) != 0) {
    return SystemError("setting up a pseudo-terminal", errno);
  }
  DDPRUN_TRY(FollowSize(pty.workers.get(), like, label));
  return pty;
}

Status FollowSize(int terminal, int like, std::string_view label) {
  winsize size{};
  if (::ioctl(like, TIOCGWINSZ, &size) != 0) return {};
  const int columns = size.ws_col - LabelColumns(label);
  if (columns > 0) size.ws_col = static_cast<uint16_t>(columns);
  if (::ioctl(terminal, TIOCSWINSZ, &size) == 0) return {};
  return SystemError("setting up a pseudo-terminal", errno);
}

}  // namespace ddprun::launcher
