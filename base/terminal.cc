#include "base/terminal.h"

#include <unistd.h>

namespace ddprun {

bool WantsColor(const Environment& env) {
  return ::isatty(STDERR_FILENO) == 1 && env.GetOr("NO_COLOR", "").empty() &&
         env.GetOr("TERM", "") != "dumb";
}

std::string RenderInColor(const Error& error) {
  Error alone = error;
  alone.more.clear();
  std::string text = Render(alone);
  text.insert(text.find('\n'), "\033[0m");
  text.insert(0, "\033[1;31m");
  for (const Error& other : error.more) text += "\n" + RenderInColor(other);
  return text;
}

std::string RenderForTerminal(const Error& error, const Environment& env) {
  return WantsColor(env) ? RenderInColor(error) : Render(error);
}

}  // namespace ddprun
