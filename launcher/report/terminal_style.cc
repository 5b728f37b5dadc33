#include "launcher/report/terminal_style.h"

#include <sys/ioctl.h>

#include <algorithm>

namespace ddprun::launcher {

TextStyle TerminalStyle(int fd, bool color) {
  // Narrower than this, wrapped lines are harder to read than cut ones.
  constexpr size_t kLeastColumns = 40;
  TextStyle style{.color = color};
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.columns = std::clamp<size_t>(size.ws_col, kLeastColumns, style.columns);
  }
  return style;
}

}  // namespace ddprun::launcher
