#include "launcher/output/line_buffer.h"

#include <utility>

namespace ddprun::launcher {

std::string LineBuffer::Feed(std::string_view bytes) {
  // What is kept has no end of a line, so only the new bytes are searched.
  const size_t end = bytes.find_last_of("\n\r");
  if (end == std::string_view::npos) {
    partial_ += bytes;
    return partial_.size() > kMaxPartialBytes ? TakePartial() : "";
  }
  std::string ready = TakePartial();
  ready += bytes.substr(0, end + 1);
  partial_ = bytes.substr(end + 1);
  return ready;
}

std::string LineBuffer::TakePartial() {
  return std::exchange(partial_, "");
}

}  // namespace ddprun::launcher
