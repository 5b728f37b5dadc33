#include "trainer/data/image_folder.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "base/check.h"
#include "base/cpus.h"
#include "base/text.h"
#include "trainer/data/data_files.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;

bool IsImageName(const std::string& path) {
  const std::string ending = ToAsciiLower(fs::path(path).extension().string());
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

struct Found {
  std::string path;
  std::string label;
};

// Adds the images of one pattern, with the names of their classes.
void AddImages(const std::string& pattern, bool with_labels, std::vector<Found>& found) {
  std::error_code ignored;
  const bool folder = fs::is_directory(pattern, ignored);
  const fs::path root = folder ? fs::path(pattern) : fs::path();
  const auto files = ValueOrThrow(ExpandGlob(folder ? (root / "**").string() : pattern));
  for (const std::string& file : files) {
    if (!IsImageName(file)) continue;
    const fs::path path(file);
    if (!folder) {
      found.push_back({file, path.parent_path().filename().string()});
      continue;
    }
    const fs::path relative = path.lexically_relative(root);
    // Images outside the classes' folders have no class.
    if (relative.has_parent_path() || !with_labels) {
      found.push_back({file, relative.begin()->string()});
    }
  }
}

Failure UnknownClass(const Found& found, const std::vector<std::string>& labels) {
  const auto nearest = FindNearest(found.label, labels);
  return WrongDataFile(found.path,
                       "\"" + found.path + "\" is of class \"" + found.label +
                           "\", which is none of the classes " + QuoteNames(labels) +
                           (nearest ? "; \"" + *nearest + "\" comes close." : "."),
                       "The classes are data.labels, or else the subfolders of the training "
                       "images; validation images must be of the same ones.");
}

}  // namespace

ImageFolder::ImageFolder(const ImageFolderOptions& options)
    : options_(options.image), normalizer_(options.image, 3), labels_(options.labels) {
  FindFiles(options);
  if (options.skip_bad_images) SkipBadImages();
  height_ = width_ = options_.size;
  if (options_.size > 0) return;
  const Image first = Load(files_.front());
  height_ = first.height;
  width_ = first.width;
}

void ImageFolder::FindFiles(const ImageFolderOptions& options) {
  std::vector<Found> found;
  for (const std::string& pattern : options.patterns)
    AddImages(pattern, options.with_labels, found);
  if (found.empty()) {
    throw WrongDataFile(
        options.patterns.front(),
        "No image with a class was found under \"" + options.patterns.front() + "\".",
        "A folder is expected that has a folder of .jpg, .jpeg or .png files for "
        "each class.");
  }
  if (labels_.empty()) {
    std::set<std::string> names;
    for (const Found& file : found) names.insert(file.label);
    labels_.assign(names.begin(), names.end());
  }
  for (Found& file : found) {
    const auto label =
        options.with_labels ? std::ranges::find(labels_, file.label) : labels_.begin();
    if (label == labels_.end()) throw UnknownClass(file, labels_);
    files_.push_back({std::move(file.path), label - labels_.begin()});
  }
}

std::vector<std::string> ImageFolder::Files() const {
  std::vector<std::string> paths;
  for (const File& file : files_) paths.push_back(file.path);
  return paths;
}

void ImageFolder::SkipBadImages() {
  std::vector<std::optional<Failure>> failures(files_.size());
  RunInParts(CoreCount(), files_.size(), 1, [&](size_t i, size_t /*end*/) {
    try {
      Load(files_[i]);
    } catch (const Failure& failure) {
      failures[i] = failure;
    }
  });
  const auto is_bad = [](const auto& failure) { return failure.has_value(); };
  const auto first = std::ranges::find_if(failures, is_bad);
  if (first == failures.end()) return;
  const auto count = std::ranges::count_if(failures, is_bad);
  if (count == std::ssize(files_)) throw Failure(**first);
  notes_.push_back(CountText(count, "image") + " skipped, the first: " + (*first)->error().what);
  std::vector<File> good;
  for (size_t i = 0; i < files_.size(); ++i) {
    if (!failures[i]) good.push_back(std::move(files_[i]));
  }
  files_ = std::move(good);
}

DataShape ImageFolder::shape() const {
  return {.input = {3, height_, width_},
          .classes = static_cast<int64_t>(labels_.size()),
          .labels = labels_};
}

std::map<std::string, std::string> ImageFolder::ModelFiles() const {
  return {{kImagesFileName, DescribeImages(options_, 3, height_, width_)}};
}

std::vector<int64_t> ImageFolder::Classes() const {
  std::vector<int64_t> classes;
  classes.reserve(files_.size());
  for (const File& file : files_) classes.push_back(file.label);
  return classes;
}

Image ImageFolder::Load(const File& file) const {
  const FileBytes bytes = ReadDataFile(file.path);
  Result<Image> image = DecodeImage(bytes.text());
  if (image) return *std::move(image);
  throw Failure(
      Error{.title = "IMAGE CANNOT BE DECODED",
            .where = file.path,
            .what = "\"" + file.path + "\" cannot be decoded: " + image.error().what + ".",
            .hint = "Replace or remove the file; whole JPEG and PNG files are expected. Or set "
                    "data.on_bad_row to \"skip\": bad images are then found and left out before "
                    "training begins.",
            .page = "image-cannot-be-decoded"});
}

Image ImageFolder::ToSize(const File& file) const {
  Image image = Load(file);
  if (options_.size > 0) return ResizeAndCenterCrop(image, options_.size);
  if (image.height == height_ && image.width == width_) return image;
  throw WrongDataFile(file.path,
                      "\"" + file.path + "\" has " + std::to_string(image.width) + " x " +
                          std::to_string(image.height) + " pixels, the first image " +
                          std::to_string(width_) + " x " + std::to_string(height_) + ".",
                      "Set data.image_size to bring all images to one size.");
}

Batch ImageFolder::Make(std::span<const int64_t> indices, std::optional<int64_t> epoch) const {
  const auto count = static_cast<int64_t>(indices.size());
  Batch batch{.inputs = at::empty({count, 3, height_, width_}, at::kFloat),
              .targets = at::empty({count}, at::kLong),
              .samples = count,
              .predictions = count};
  auto* to = batch.inputs.mutable_data_ptr<float>();
  auto* labels = batch.targets.mutable_data_ptr<int64_t>();
  for (const int64_t index : indices) {
    DDPRUN_CHECK(index >= 0 && index < size());
    const File& file = files_[index];
    SampleRandom random(options_.seed, epoch.value_or(0), index);
    const Image image = epoch && options_.random_resized_crop
                            ? RandomResizedCrop(Load(file), options_.size, random)
                            : ToSize(file);
    const uint8_t* pixels = image.pixels.data();
    const auto pixel = [&](size_t channel, int64_t y, int64_t x) {
      return pixels[(y * width_ + x) * 3 + channel];
    };
    const Shift shift = epoch ? DrawShift(options_, random) : Shift();
    normalizer_.Write(height_, width_, shift, pixel, to);
    to += 3 * height_ * width_;
    *labels++ = file.label;
  }
  return batch;
}

}  // namespace ddprun::trainer
