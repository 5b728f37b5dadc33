// One line on a terminal that is redrawn in place. One thread; the caller passes the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::trainer {

struct ProgressState {
  int64_t step = 0;
  int64_t max_steps = 0;
  double loss = 0;
  double per_second = 0;
  bool rate_is_tokens = true;
  double seconds_left = 0;  // negative: unknown
};

// Returns " 42% |########----------| 210/500  loss 2.4513  12.3k tokens/s  left 0:42", at most
// `columns` wide. If there is too little room, leaves out the bar first, then parts from the right.
std::string RenderProgress(const ProgressState& state, size_t columns);

// Returns the width of the terminal `fd`, or 80 if it does not say.
size_t TerminalColumns(int fd);

class ProgressBar {
 public:
  // Writes to `fd`, which must stay open.
  explicit ProgressBar(int fd) : fd_(fd) {}
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() { Clear(); }

  // Redraws, at most ten times a second. Always draws the last step.
  void Update(const ProgressState& state, double now_seconds);
  // Removes the line, so that other lines can be printed. The next Update() draws it again.
  void Clear();
  // Draws the line a last time, followed by a newline.
  void Finish(const ProgressState& state);

 private:
  void Draw(const ProgressState& state);
  void Write(std::string_view text) const;

  int fd_;
  bool drawn_ = false;
  std::optional<double> last_draw_seconds_;
};

}  // namespace ddprun::trainer
