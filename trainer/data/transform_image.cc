#include "trainer/data/transform_image.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/mix_seeds.h"

namespace ddprun::trainer {

namespace {

// Pillow's fixed point: 8 bits for a pixel, 2 as reserve, the rest for the weights.
constexpr int kPrecisionBits = 32 - 8 - 2;

// The weights of the inputs [begin, begin + weights.size()) in one output.
struct Taps {
  int64_t begin = 0;
  std::vector<int32_t> weights;
};

std::vector<Taps> TriangleFilter(int64_t in_size, int64_t out_size) {
  const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
  const double support = std::max(scale, 1.0);
  std::vector<Taps> taps(static_cast<size_t>(out_size));
  for (int64_t out = 0; out < out_size; ++out) {
    const double center = (static_cast<double>(out) + 0.5) * scale;
    const auto begin = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
    const auto end = std::min(in_size, static_cast<int64_t>(center + support + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (int64_t in = begin; in < end; ++in) {
      const double distance = std::abs((static_cast<double>(in) - center + 0.5) / support);
      weights.push_back(std::max(0.0, 1.0 - distance));
      sum += weights.back();
    }
    taps[out].begin = begin;
    for (const double weight : weights) {
      const double share = sum == 0 ? weight : weight / sum;
      taps[out].weights.push_back(static_cast<int32_t>(share * (1 << kPrecisionBits) + 0.5));
    }
  }
  return taps;
}

// Returns the channel's value. A list with one value is for all channels.
double ValueOf(const std::vector<double>& list, size_t channel, double absent) {
  return list.empty() ? absent : list[std::min(channel, list.size() - 1)];
}

uint8_t FromFixed(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

Image ResizeWidth(const Image& image, int64_t width) {
  Image result{.height = image.height, .width = width, .pixels = {}};
  result.pixels.resize(static_cast<size_t>(image.height * width * 3));
  const std::vector<Taps> taps = TriangleFilter(image.width, width);
  uint8_t* to = result.pixels.data();
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* row = image.pixels.data() + y * image.width * 3;
    for (const Taps& tap : taps) {
      std::array<int32_t, 3> sums = {1 << (kPrecisionBits - 1), 1 << (kPrecisionBits - 1),
                                     1 << (kPrecisionBits - 1)};
      const uint8_t* from = row + tap.begin * 3;
      for (const int32_t weight : tap.weights) {
        for (int32_t& sum : sums) sum += *from++ * weight;
      }
      for (const int32_t sum : sums) *to++ = FromFixed(sum);
    }
  }
  return result;
}

Image ResizeHeight(const Image& image, int64_t height) {
  Image result{.height = height, .width = image.width, .pixels = {}};
  const int64_t row_bytes = image.width * 3;
  result.pixels.resize(static_cast<size_t>(height * row_bytes));
  std::vector<int32_t> sums(static_cast<size_t>(row_bytes));
  uint8_t* to = result.pixels.data();
  for (const Taps& tap : TriangleFilter(image.height, height)) {
    std::fill(sums.begin(), sums.end(), 1 << (kPrecisionBits - 1));
    const uint8_t* from = image.pixels.data() + tap.begin * row_bytes;
    for (const int32_t weight : tap.weights) {
      for (int32_t& sum : sums) sum += *from++ * weight;
    }
    to = std::transform(sums.begin(), sums.end(), to, FromFixed);
  }
  return result;
}

}  // namespace

Image Crop(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  DDPRUN_CHECK(top >= 0 && left >= 0 && top + height <= image.height &&
               left + width <= image.width);
  Image result{.height = height, .width = width, .pixels = {}};
  result.pixels.reserve(static_cast<size_t>(height * width * 3));
  for (int64_t y = top; y < top + height; ++y) {
    const auto row = image.pixels.begin() + (y * image.width + left) * 3;
    result.pixels.insert(result.pixels.end(), row, row + width * 3);
  }
  return result;
}

Image Resize(const Image& image, int64_t height, int64_t width) {
  if (width == image.width && height == image.height) return image;
  if (width == image.width) return ResizeHeight(image, height);
  Image wide = ResizeWidth(image, width);
  return height == wide.height ? wide : ResizeHeight(wide, height);
}

Image ResizeAndCenterCrop(const Image& image, int64_t size) {
  const int64_t shorter = std::min(image.height, image.width);
  const auto scaled = [&](int64_t side) { return size * side / shorter; };
  const Image resized = Resize(image, scaled(image.height), scaled(image.width));
  // Rounds halves to the even number, like Python's round(), which torchvision uses.
  const auto middle = [&](int64_t side) {
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(side - size) / 2));
  };
  return Crop(resized, middle(resized.height), middle(resized.width), size, size);
}

SampleRandom::SampleRandom(uint64_t seed, int64_t epoch, int64_t sample)
    : state_(MixSeeds({seed, static_cast<uint64_t>(epoch), static_cast<uint64_t>(sample)})) {}

uint64_t SampleRandom::Next() {
  state_ += 0x9e3779b97f4a7c15;
  return MixBits(state_);
}

double SampleRandom::Uniform() {
  return static_cast<double>(Next() >> 11) * 0x1p-53;
}

int64_t SampleRandom::Below(int64_t limit) {
  return static_cast<int64_t>(Uniform() * static_cast<double>(limit));
}

Image RandomResizedCrop(const Image& image, int64_t size, SampleRandom& random) {
  const auto area = static_cast<double>(image.height * image.width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double part = area * (0.08 + random.Uniform() * 0.92);
    const double ratio = std::exp(std::log(3.0 / 4) + random.Uniform() * 2 * std::log(4.0 / 3));
    const auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(part * ratio)));
    const auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(part / ratio)));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    const int64_t top = random.Below(image.height - height + 1);
    const int64_t left = random.Below(image.width - width + 1);
    return Resize(Crop(image, top, left, height, width), size, size);
  }
  return ResizeAndCenterCrop(image, size);  // for an image much longer than wide
}

Shift DrawShift(const ImageOptions& options, SampleRandom& random) {
  Shift shift;
  const int64_t padding = options.random_crop_padding;
  if (padding > 0) {
    shift.top = random.Below(2 * padding + 1) - padding;
    shift.left = random.Below(2 * padding + 1) - padding;
  }
  shift.flip = options.random_flip && random.Uniform() < 0.5;
  return shift;
}

std::string DescribeImages(const ImageOptions& options,
                           int64_t channels,
                           int64_t height,
                           int64_t width) {
  using nlohmann::ordered_json;
  const bool scaled = options.size > 0;
  const ordered_json whole = {{"height", height}, {"width", width}};
  ordered_json mean = ordered_json::array();
  ordered_json deviation = ordered_json::array();
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    mean.push_back(ValueOf(options.mean, c, 0));
    deviation.push_back(ValueOf(options.std, c, 1));
  }
  const ordered_json text = {
      {"image_processor_type", "BitImageProcessor"},
      {"do_convert_rgb", channels == 3},
      {"do_resize", scaled},
      {"size", scaled ? ordered_json{{"shortest_edge", options.size}} : whole},
      {"resample", 2},  // Pillow's BILINEAR
      {"do_center_crop", scaled},
      {"crop_size", whole},
      {"do_rescale", true},
      {"rescale_factor", 1.0 / 255},
      {"do_normalize", !options.mean.empty() || !options.std.empty()},
      {"image_mean", mean},
      {"image_std", deviation}};
  return text.dump(2) + "\n";
}

Normalizer::Normalizer(const ImageOptions& options, int64_t channels)
    : tables_(static_cast<size_t>(channels)) {
  for (size_t c = 0; c < tables_.size(); ++c) {
    const auto mean = static_cast<float>(ValueOf(options.mean, c, 0));
    const auto deviation = static_cast<float>(ValueOf(options.std, c, 1));
    for (size_t byte = 0; byte < 256; ++byte) {
      // Computes in float32, like ToTensor and Normalize.
      tables_[c][byte] = (static_cast<float>(byte) / 255.0F - mean) / deviation;
    }
  }
}

}  // namespace ddprun::trainer
