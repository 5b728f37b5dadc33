// Small images of one size, decoded once: IDX files (such as MNIST) and CIFAR's binary files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/large_array.h"
#include "trainer/data/dataset.h"
#include "trainer/data/transform_image.h"

namespace ddprun::trainer {

class ImageArrays final : public Dataset {
 public:
  // The contents of all files.
  struct Contents {
    int64_t channels = 0;
    int64_t height = 0;
    int64_t width = 0;
    int64_t classes = 0;
    std::vector<std::string> class_names = {};  // `classes` of them, or none
    LargeArray<uint8_t> pixels;                 // [labels.size(), channels, height, width]
    std::vector<int64_t> labels;                // below `classes`
  };
  ImageArrays(Contents contents, const ImageOptions& options);

  int64_t size() const override { return static_cast<int64_t>(contents_.labels.size()); }
  // Returns inputs float32 [B, C, H, W] and targets, classes int64 [B].
  Batch Get(std::span<const int64_t> indices) const override { return Make(indices, {}); }
  Batch GetVaried(std::span<const int64_t> indices, int64_t epoch) const override {
    return Make(indices, epoch);
  }
  DataShape shape() const override;
  std::vector<int64_t> Classes() const override { return contents_.labels; }
  std::map<std::string, std::string> ModelFiles() const override;

 private:
  // Without an epoch, images are not varied.
  Batch Make(std::span<const int64_t> indices, std::optional<int64_t> epoch) const;

  const Contents contents_;
  const ImageOptions options_;
  const Normalizer normalizer_;
};

// The classes of labels. A `count` of 0 means as many as the largest label needs.
struct IdxClasses {
  int64_t count = 0;
  std::vector<std::string> names = {};  // `count` of them, or none
};

// Opens IDX files of images (unsigned bytes, three dimensions), compressed by gzip or not. The
// labels of each are in a file beside it, in whose name "labels-idx1" replaces "images-idx3".
// Throws Failure.
std::unique_ptr<Dataset> OpenIdx(const std::vector<std::string>& files,
                                 const ImageOptions& options,
                                 const IdxClasses& classes = {});

// CIFAR's binary files. OpenCifar() takes the fine one of CIFAR-100's two labels. Throws Failure.
enum class Cifar { k10, k100 };
std::unique_ptr<Dataset> OpenCifar(Cifar kind,
                                   const std::vector<std::string>& files,
                                   const ImageOptions& options);

}  // namespace ddprun::trainer
