// A folder of images, JPEG or PNG, with a subfolder for each class. Files are read and decoded when
// a batch asks for them, by the loader's threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/dataset.h"
#include "trainer/data/transform_image.h"

namespace ddprun::trainer {

struct ImageFolderOptions {
  // Folders, of which each subfolder is a class, also of the images further below; or patterns of
  // images, whose class is the folder that they stand in. Files are taken by their ending: .jpg,
  // .jpeg, .png.
  std::vector<std::string> patterns = {};
  // Classes by name, in the order of their numbers; empty: the names that were found, sorted.
  std::vector<std::string> labels = {};
  ImageOptions image = {};
  // Decodes all images when the data set is opened, on as many threads as there are cores, and
  // leaves out those that cannot be: only so do all ranks count the same samples.
  bool skip_bad_images = false;
};

class ImageFolder final : public Dataset {
 public:
  // Throws Failure: there is no image, or none that decodes where bad ones are skipped, or one of a
  // class that is not among the labels; without image.size also when the first does not decode.
  explicit ImageFolder(const ImageFolderOptions& options);

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  // float32 [B, 3, H, W] and classes int64 [B]. Throws Failure: a file is gone, does not decode,
  // or, without image.size, has another size than the first.
  Batch Get(std::span<const int64_t> indices) const override { return Make(indices, {}); }
  Batch GetVaried(std::span<const int64_t> indices, int64_t epoch) const override {
    return Make(indices, epoch);
  }
  DataShape shape() const override;
  std::vector<std::string> Files() const override;
  std::vector<std::string> Notes() const override { return notes_; }
  std::map<std::string, std::string> ModelFiles() const override;

 private:
  struct File {
    std::string path;
    int64_t label = 0;
  };

  void FindFiles(const ImageFolderOptions& options);
  void LeaveOutBadImages();
  Image Load(const File& file) const;
  Image ToSize(const File& file) const;
  // Without an epoch the images as they are.
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
