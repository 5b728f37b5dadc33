#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace ddprun {

bool WantsColor(const Environment& env) {
  return ::isatty(STDERR_FILENO) == 1 && env.GetOr("NO_COLOR", "").empty() &&
         env.GetOr("TERM", "") != "dumb";
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

int ExitCodeOf(const Result<int>& result, const Environment& env) {
  if (result) return *result;
  std::fputs(RenderForTerminal(result.error(), env).c_str(), stderr);
  return ExitStatus(result.error().code);
}

}  // namespace ddprun
