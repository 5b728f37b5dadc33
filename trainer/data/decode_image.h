// JPEG and PNG files to pixels. LibTorch-free.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::trainer {

// 8 bits per channel, rows from the top, pixels from the left, R G B.
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> pixels;  // [height, width, 3]
};

// The image of a whole JPEG or PNG file, told apart by their first bytes. Grey becomes RGB, an
// alpha channel is left out, 16 bits become 8. Error::what is the reason alone, for the caller to
// say which file it was. Any thread.
Result<Image> DecodeImage(std::string_view file);

}  // namespace ddprun::trainer
