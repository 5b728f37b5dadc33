// Pure: the last lines of a stream, for a report.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// The last bytes of a stream, enough for its last lines.
class Tail {
 public:
  static constexpr size_t kBytes = 64 << 10;

  void Add(std::string_view bytes);
  // Between 0 and 2 * kBytes.
  const std::string& bytes() const { return bytes_; }
  // Whether something came before bytes().
  bool cut() const { return cut_; }

 private:
  std::string bytes_;
  bool cut_ = false;
};

// Lines as they were to be seen, the oldest first, an unfinished one included: what a '\r' wrote
// over, terminal control sequences and the frames of C++ stacks are left out, which would push out
// the words of the error, and each line is cut to kMaxLineBytes.
// `cut`: `bytes` may begin within a line, which is then left out unless there is no other.
std::vector<std::string> LastLines(std::string_view bytes, bool cut, size_t max_lines);

inline constexpr size_t kMaxLineBytes = 4 << 10;

}  // namespace ddprun::launcher
