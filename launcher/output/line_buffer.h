// Pure: a stream of bytes cut where it may be shown, and its last lines kept.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

class LineBuffer {
 public:
  // Keeps the last `max_lines` lines, each cut to kMaxKeptLineBytes.
  explicit LineBuffer(size_t max_lines) : max_lines_(max_lines) {}

  // Takes bytes and returns those that may be shown now: up to and with the last '\n' or '\r'
  // (progress bars end in '\r'), everything once a line is longer than kMaxPartialBytes. No byte
  // is lost, added or moved.
  std::string Feed(std::string_view bytes);
  // The rest, for a prompt or an unfinished last line.
  std::string TakePartial();
  bool has_partial() const { return !partial_.empty(); }

  // Oldest first, an unfinished one included. What a '\r' wrote over is left out.
  std::vector<std::string> LastLines() const;

  static constexpr size_t kMaxPartialBytes = 64 << 10;
  static constexpr size_t kMaxKeptLineBytes = 4 << 10;

 private:
  void Keep(std::string_view bytes);
  void KeepLine();

  size_t max_lines_;
  std::string partial_;
  std::deque<std::string> lines_;
  std::string line_;  // the line being written, for LastLines
  bool overwrite_ = false;
};

}  // namespace ddprun::launcher
