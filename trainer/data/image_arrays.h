// Small images of one size, all in memory: IDX files (MNIST and its like) and CIFAR's binary files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/dataset.h"
#include "trainer/data/transform_image.h"

namespace ddprun::trainer {

class ImageArrays final : public Dataset {
 public:
  // What the files hold, put together.
  struct Contents {
    int64_t channels = 0;
    int64_t height = 0;
    int64_t width = 0;
    int64_t classes = 0;
    std::vector<std::string> class_names = {};  // `classes` of them, or none
    std::vector<uint8_t> pixels;                // [labels.size(), channels, height, width]
    std::vector<int64_t> labels;                // below classes
  };
  ImageArrays(Contents contents, const ImageOptions& options);

  int64_t size() const override { return static_cast<int64_t>(contents_.labels.size()); }
  // float32 [B, C, H, W] and classes int64 [B].
  Batch Get(std::span<const int64_t> indices) const override { return Make(indices, {}); }
  Batch GetVaried(std::span<const int64_t> indices, int64_t epoch) const override {
    return Make(indices, epoch);
  }
  DataShape shape() const override;
  std::map<std::string, std::string> ModelFiles() const override;

 private:
  // Without an epoch the images as they are.
  Batch Make(std::span<const int64_t> indices, std::optional<int64_t> epoch) const;

  const Contents contents_;
  const ImageOptions options_;
  const Normalizer normalizer_;
};

// The classes that labels may be of; without count they are as many as the largest label asks for.
struct IdxClasses {
  int64_t count = 0;
  std::vector<std::string> names = {};  // count of them, or none
};

// IDX files of images (unsigned bytes, three dimensions), compressed by gzip or not;
// each one's labels stand beside it in a file with "images-idx3" replaced by "labels-idx1" in its
// name. Throws Failure.
std::unique_ptr<Dataset> OpenIdx(const std::vector<std::string>& files,
                                 const ImageOptions& options,
                                 const IdxClasses& classes = {});

// CIFAR's binary files. CIFAR-100 has two labels per image, of which the fine one is taken. Throws
// Failure.
enum class Cifar { k10, k100 };
std::unique_ptr<Dataset> OpenCifar(Cifar kind,
                                   const std::vector<std::string>& files,
                                   const ImageOptions& options);

}  // namespace ddprun::trainer
