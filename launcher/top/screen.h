// A terminal that shows one text after the other in place, as top does.
#pragma once

#include <termios.h>

#include <chrono>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "launcher/process/signals.h"

namespace ddprun::launcher {

// Uses the alternate screen of the terminal, so that the lines of before come back at the end. One
// thread. REQUIRES: standard output is a terminal; `mask` outlives the screen.
class Screen {
 public:
  explicit Screen(const SignalMask& mask);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  size_t columns() const;
  // Shows the text from the top. Lines below the end of the screen are not shown, and the last line
  // then says how many. Returns false if the terminal is gone.
  bool Show(const std::string& text);
  // Waits until it is time for the next text, at most `time`. Returns the exit code if the user or
  // a signal ends the program.
  std::optional<int> Wait(std::chrono::milliseconds time);

 private:
  void Enter();
  void Leave();
  std::optional<int> OnSignal(int signal);

  const UniqueFd signals_;
  bool keys_ = false;  // standard input is the terminal
  termios before_ = {};
};

}  // namespace ddprun::launcher
