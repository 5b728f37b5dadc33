#include "base/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace ddprun {

bool IsTerminal(int fd, const Environment& env) {
  return ::isatty(fd) == 1 && env.GetOr("TERM", "") != "dumb";
}

bool WantsColor(const Environment& env, int fd) {
  return IsTerminal(fd, env) && env.GetOr("NO_COLOR", "").empty();
}

TextStyle StyleOf(int fd, bool color) {
  // On narrower terminals, wrapped lines are harder to read than cut ones.
  constexpr size_t kLeastColumns = 40;
  TextStyle style{.color = color};
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.columns = std::clamp<size_t>(size.ws_col, kLeastColumns, style.columns);
  }
  return style;
}

std::string Render(const Error& error, const TextStyle& style) {
  std::string body = error.what + "\n";
  if (!error.hint.empty()) body += error.hint + "\n";
  if (!error.page.empty()) body += "More: ddprun explain " + error.page + "\n";
  std::string text =
      TitleBar(MakePrintable(error.title), MakePrintable(error.where), style.columns, style.color) +
      MakePrintable(body);
  for (const Error& other : error.more) text += "\n" + Render(other, style);
  return text;
}

std::string RenderForTerminal(const Error& error, const Environment& env) {
  return Render(error, StyleOf(STDERR_FILENO, WantsColor(env)));
}

Status FlushStandardOutput() {
  const bool failed_before = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !failed_before) return {};
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0) return {};  // no reader
  return Error{.title = "CANNOT WRITE A FILE",
               .where = "standard output",
               .what = "The text that was to be printed is not whole: writing it failed.",
               .hint = "If it goes into a file: make room on the disk, or write to another one.",
               .page = "cannot-write"};
}

int ExitCodeOf(const Result<int>& result, const Environment& env) {
  const Status printed = FlushStandardOutput();
  if (result && (*result != 0 || printed.ok())) return *result;
  const Error& error = result ? printed.error() : result.error();
  std::fputs(RenderForTerminal(error, env).c_str(), stderr);
  return ExitStatus(error.code);
}

}  // namespace ddprun
