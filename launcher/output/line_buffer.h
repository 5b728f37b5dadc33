// Pure: a stream of bytes cut where it may be shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::launcher {

class LineBuffer {
 public:
  // Takes bytes and returns those that may be shown now: up to and with the last '\n' or '\r'
  // (progress bars end in '\r'), everything once a line is longer than kMaxPartialBytes. No byte
  // is lost, added or moved.
  std::string Feed(std::string_view bytes);
  // The rest, for a prompt or an unfinished last line.
  std::string TakePartial();
  bool has_partial() const { return !partial_.empty(); }

  // Longer lines may be cut by those of other workers. Memory is used only while there is one.
  static constexpr size_t kMaxPartialBytes = 16 << 20;

 private:
  std::string partial_;
};

}  // namespace ddprun::launcher
