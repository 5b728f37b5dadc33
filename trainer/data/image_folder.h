// A folder of images, JPEG or PNG, with a subfolder for each class. The loader's threads read and
// decode files when a batch needs them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/dataset.h"
#include "trainer/data/transform_image.h"

namespace ddprun::trainer {

struct ImageFolderOptions {
  // Folders, in which each subfolder is a class that contains all images below it; or patterns of
  // images, whose class is the name of their folder. Only .jpg, .jpeg and .png count.
  std::vector<std::string> patterns = {};
  // Names of the classes, in the order of their numbers. Empty: the names that were found, sorted.
  std::vector<std::string> labels = {};
  // false: images may have any folder, and each is of class 0. REQUIRES then: labels.
  bool with_labels = true;
  ImageOptions image = {};
  // Decodes all images when the data set is opened, on as many threads as there are cores, and
  // leaves out those that fail. All are decoded at once, so that all ranks count the same samples.
  bool skip_bad_images = false;
};

class ImageFolder final : public Dataset {
 public:
  // Throws Failure if there is no image, if none can be decoded (with skip_bad_images), or if an
  // image's class is not among the labels; without image.size also if the first cannot be decoded.
  explicit ImageFolder(const ImageFolderOptions& options);

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  // Returns inputs float32 [B, 3, H, W] and targets, classes int64 [B]. Throws Failure if a file is
  // gone, cannot be decoded or, without image.size, has another size than the first image.
  Batch Get(std::span<const int64_t> indices) const override { return Make(indices, {}); }
  Batch GetVaried(std::span<const int64_t> indices, int64_t epoch) const override {
    return Make(indices, epoch);
  }
  DataShape shape() const override;
  std::vector<int64_t> Classes() const override;
  std::vector<std::string> Files() const override;
  std::vector<std::string> Notes() const override { return notes_; }
  std::map<std::string, std::string> ModelFiles() const override;

 private:
  struct File {
    std::string path;
    int64_t label = 0;
  };

  void FindFiles(const ImageFolderOptions& options);
  void SkipBadImages();
  Image Load(const File& file) const;
  Image ToSize(const File& file) const;
  // Without an epoch, images are not varied.
  Batch Make(std::span<const int64_t> indices, std::optional<int64_t> epoch) const;

  const ImageOptions options_;
  const Normalizer normalizer_;
  std::vector<std::string> labels_;
  std::vector<File> files_;
  std::vector<std::string> notes_;
  int64_t height_ = 0;
  int64_t width_ = 0;
};

}  // namespace ddprun::trainer
