#include "trainer/report/progress_bar.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <vector>

#include "base/atomic_file.h"
#include "trainer/report/format.h"

namespace ddprun::trainer {

namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr size_t kDefaultColumns = 80;
constexpr size_t kNarrowestBar = 10;
constexpr size_t kWidestBar = 40;
// Goes to the first column and clears to the end of the line (ECMA-48 EL).
constexpr std::string_view kClearLine = "\r\x1b[K";

}  // namespace

size_t TerminalColumns(int fd) {
  winsize size = {};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultColumns;
  return size.ws_col;
}

std::string RenderProgress(const ProgressState& state, size_t columns) {
  const int64_t total = std::max<int64_t>(state.max_steps, 1);
  const int64_t step = std::clamp<int64_t>(state.step, 0, total);
  std::vector<std::string> parts = {
      std::to_string(state.step) + "/" + std::to_string(state.max_steps),
      "  loss " + LossText(state.loss),
      "  " + ShortNumber(state.per_second) + (state.rate_is_tokens ? " tokens/s" : " samples/s"),
      "  left " + Duration(state.seconds_left)};
  if (state.seconds_left < 0) parts.pop_back();
  std::string percent = std::to_string(100 * step / total) + "%";
  percent.insert(0, 4 - percent.size(), ' ');
  const auto width = [&] {
    size_t sum = percent.size() + 1;
    for (const std::string& part : parts) sum += part.size();
    return sum;
  };
  while (parts.size() > 1 && width() > columns) parts.pop_back();
  std::string line = percent + " ";
  // Two '|' and a blank frame the bar.
  if (columns >= width() + kNarrowestBar + 3) {
    const size_t bar = std::min(columns - width() - 3, kWidestBar);
    const size_t full = bar * static_cast<size_t>(step) / static_cast<size_t>(total);
    line += "|" + std::string(full, '#') + std::string(bar - full, '-') + "| ";
  }
  for (const std::string& part : parts) line += part;
  return line.substr(0, columns);
}

void ProgressBar::Update(const ProgressState& state, double now_seconds) {
  const bool last = state.step >= state.max_steps;
  const bool early = last_draw_seconds_ && now_seconds - *last_draw_seconds_ < kRedrawSeconds;
  if (early && !last) return;
  Draw(state);
  last_draw_seconds_ = now_seconds;
}

void ProgressBar::Finish(const ProgressState& state) {
  Draw(state);
  Write("\n");
  drawn_ = false;
}

void ProgressBar::Draw(const ProgressState& state) {
  // Leaves one column free, because some terminals wrap after the last one.
  const size_t columns = TerminalColumns(fd_) - 1;
  Write(std::string(kClearLine) + RenderProgress(state, columns));
  drawn_ = true;
}

void ProgressBar::Clear() {
  if (drawn_) Write(kClearLine);
  drawn_ = false;
}

void ProgressBar::Write(std::string_view text) const {
  // Ignores errors, because a closed terminal must not end the training.
  (void)WriteBytes(fd_, text);
}

}  // namespace ddprun::trainer
