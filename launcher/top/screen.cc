#include "launcher/top/screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace ddprun::launcher {

namespace {

winsize SizeOfTerminal() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  }
  return size;
}

bool Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

Screen::Screen(const SignalMask& mask)
    : signals_(::signalfd(-1, &mask.blocked(), SFD_CLOEXEC | SFD_NONBLOCK)) {
  Enter();
}

Screen::~Screen() {
  Leave();
}

void Screen::Enter() {
  keys_ = ::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before_) == 0;
  if (keys_) {
    termios now = before_;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
  }
  Write("\033[?1049h\033[?25l");  // the alternate screen, no cursor
}

void Screen::Leave() {
  Write("\033[?25h\033[?1049l");
  if (keys_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

size_t Screen::columns() const {
  return SizeOfTerminal().ws_col;
}

bool Screen::Show(const std::string& text) {
  std::vector<std::string> lines = SplitLines(text);
  const size_t rows = SizeOfTerminal().ws_row;
  if (lines.size() > rows) {
    const size_t more = lines.size() - rows + 1;
    lines.resize(rows - 1);
    lines.push_back("... and " + CountText(static_cast<int64_t>(more), "more line"));
  }
  std::string frame = "\033[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    frame += (i > 0 ? "\n" : "") + lines[i] + "\033[K";  // clears the rest of the line
  }
  return Write(frame + "\033[J");
}

std::optional<int> Screen::OnSignal(int signal) {
  switch (signal) {
    case SIGINT:
      return 0;
    case SIGTSTP:
      Leave();
      ::kill(::getpid(), SIGSTOP);
      Enter();
      return std::nullopt;
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT:
      return 128 + signal;
    default:
      return std::nullopt;  // SIGWINCH: the next text has the new size
  }
}

std::optional<int> Screen::Wait(std::chrono::milliseconds time) {
  std::vector<pollfd> waits = {{signals_.get(), POLLIN, 0}};
  if (keys_) waits.push_back({STDIN_FILENO, POLLIN, 0});
  ::poll(waits.data(), waits.size(), static_cast<int>(time.count()));
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (const auto code = OnSignal(static_cast<int>(info.ssi_signo))) return code;
  }
  if (!keys_ || waits[1].revents == 0) return std::nullopt;
  char key = 0;
  if (::read(STDIN_FILENO, &key, 1) <= 0) keys_ = false;  // the terminal has no more keys
  return key == 'q' ? std::optional(0) : std::nullopt;
}

}  // namespace ddprun::launcher
