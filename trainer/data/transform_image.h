// Scales, cuts and normalizes images. Pure; any thread; LibTorch-free.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::trainer {

// Decodes JPEG and PNG files to pixels.

// 8 bits per channel, rows from the top, pixels from the left, R G B.
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> pixels;  // [height, width, 3]
};

// Returns the image of a whole JPEG or PNG file; the first bytes distinguish them. Grey becomes
// RGB, an alpha channel is dropped, 16 bits become 8. Error::what has only the reason, because the
// caller adds the file's name. Any thread.
Result<Image> DecodeImage(std::string_view file);

// The conversion of a data set's images to a model's inputs.
struct ImageOptions {
  int64_t size = 0;               // height and width of the result; 0: as the images are
  std::vector<double> mean = {};  // of values from 0 to 1: one per channel, one for all, or none
  std::vector<double> std = {};
  // Used in training only.
  int64_t random_crop_padding = 0;
  bool random_flip = false;
  bool random_resized_crop = false;
  uint64_t seed = 0;
};

inline constexpr const char* kImagesFileName = "preprocessor_config.json";

// Returns the text of kImagesFileName, in the format of transformers' image processors, for a model
// that is trained on such images. `height` and `width` are those of the transformed images.
std::string DescribeImages(const ImageOptions& options,
                           int64_t channels,
                           int64_t height,
                           int64_t width);

// Returns the part of an image from (top, left). REQUIRES: it lies within the image.
Image Crop(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width);

// Resizes like Pillow 11 with BILINEAR, bit for bit: a triangle filter, as wide as the reduction.
Image Resize(const Image& image, int64_t height, int64_t width);

// Does torchvision's Resize(size) and CenterCrop(size).
Image ResizeAndCenterCrop(const Image& image, int64_t size);

// Random numbers that follow from seed, epoch and sample alone, so that a sample does not depend on
// the number of threads or ranks.
class SampleRandom {
 public:
  SampleRandom(uint64_t seed, int64_t epoch, int64_t sample);
  uint64_t Next();
  double Uniform();              // in [0, 1)
  int64_t Below(int64_t limit);  // in [0, limit)

 private:
  uint64_t state_;
};

// Does torchvision's RandomResizedCrop: 8 % to all of the area, sides 3:4 to 4:3.
Image RandomResizedCrop(const Image& image, int64_t size, SampleRandom& random);

// The corner of a random crop, relative to the unpadded image, and whether it is mirrored.
struct Shift {
  int64_t top = 0;
  int64_t left = 0;
  bool flip = false;
};
Shift DrawShift(const ImageOptions& options, SampleRandom& random);

// Converts bytes to numbers: (pixel / 255 - mean) / std, per channel.
class Normalizer {
 public:
  Normalizer(const ImageOptions& options, int64_t channels);
  // Writes a [channels, height, width] image, moved by `shift` and black outside. pixel(channel, y,
  // x) returns its bytes.
  template <typename Pixel>
  void Write(
      int64_t height, int64_t width, const Shift& shift, const Pixel& pixel, float* to) const {
    for (size_t c = 0; c < tables_.size(); ++c) {
      for (int64_t y = 0; y < height; ++y) {
        const int64_t from_y = y + shift.top;
        for (int64_t x = 0; x < width; ++x) {
          const int64_t from_x = (shift.flip ? width - 1 - x : x) + shift.left;
          const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
          *to++ = tables_[c][inside ? pixel(c, from_y, from_x) : 0];
        }
      }
    }
  }

 private:
  std::vector<std::array<float, 256>> tables_;  // of each channel: byte -> number
};

}  // namespace ddprun::trainer
