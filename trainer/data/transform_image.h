// Scaling, cutting and normalising pixels. Pure; any thread; LibTorch-free.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::trainer {

// JPEG and PNG files to pixels.

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

// How images of a data set become a model's inputs.
struct ImageOptions {
  int64_t size = 0;               // height and width of what comes out; 0: as the images are
  std::vector<double> mean = {};  // of values from 0 to 1: one per channel, one for all, or none
  std::vector<double> std = {};
  // In training only.
  int64_t random_crop_padding = 0;
  bool random_flip = false;
  bool random_resized_crop = false;
  uint64_t seed = 0;
};

inline constexpr const char* kImagesFileName = "preprocessor_config.json";

// Its text, for a model that is trained on such images, as transformers' image
// processors read it. Height and width are those of what comes out.
std::string DescribeImages(const ImageOptions& options,
                           int64_t channels,
                           int64_t height,
                           int64_t width);

// The part of an image from (top, left); REQUIRES: it lies within the image.
Image Crop(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width);

// The resize of Pillow 11 with BILINEAR, bit for bit: a triangle filter, as wide as the reduction.
Image Resize(const Image& image, int64_t height, int64_t width);

// torchvision's Resize(size) and CenterCrop(size).
Image ResizeAndCenterCrop(const Image& image, int64_t size);

// Numbers that follow from seed, epoch and sample alone, so that neither the number of threads nor
// that of ranks changes what a sample looks like.
class SampleRandom {
 public:
  SampleRandom(uint64_t seed, int64_t epoch, int64_t sample);
  uint64_t Next();
  double Uniform();              // in [0, 1)
  int64_t Below(int64_t limit);  // in [0, limit)

 private:
  uint64_t state_;
};

// torchvision's RandomResizedCrop: 8 % to all of the area, sides 3:4 to 4:3.
Image RandomResizedCrop(const Image& image, int64_t size, SampleRandom& random);

// Where a random crop begins, counted from the unpadded image's corner, and whether it is mirrored.
struct Shift {
  int64_t top = 0;
  int64_t left = 0;
  bool flip = false;
};
Shift DrawShift(const ImageOptions& options, SampleRandom& random);

// Bytes to numbers: pixel / 255, less the mean, divided by std, per channel.
class Normalizer {
 public:
  Normalizer(const ImageOptions& options, int64_t channels);
  // `pixel(channel, y, x)` of a [channels, height, width] image, moved by `shift`, black outside.
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
