// The last lines of a stream, for a report. No system calls.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// Keeps the last bytes of a stream.
class Tail {
 public:
  static constexpr size_t kBytes = 64 << 10;

  void Add(std::string_view bytes);
  // Returns at most 2 * kBytes bytes.
  const std::string& bytes() const { return bytes_; }
  // Returns whether bytes() lacks the stream's beginning.
  bool cut() const { return cut_; }

 private:
  std::string bytes_;
  bool cut_ = false;
};

// Returns the last lines, oldest first, as a terminal shows them, each cut to kMaxLineBytes. Leaves
// out frames of C++ stacks, which would push out the error's text. `cut` means that `bytes` may
// begin within a line: this line is left out unless it is the only one.
std::vector<std::string> LastLines(std::string_view bytes, bool cut, size_t max_lines);

inline constexpr size_t kMaxLineBytes = 4 << 10;

}  // namespace ddprun::launcher
