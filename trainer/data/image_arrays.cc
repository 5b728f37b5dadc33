#include "trainer/data/image_arrays.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/check.h"
#include "trainer/data/data_files.h"

namespace ddprun::trainer {

namespace {

constexpr char kIdxHint[] =
    "The files of MNIST and its like are expected as published, compressed (.gz) or not.";

// Returns the dimensions of an IDX file of unsigned bytes. The bytes begin at *data.
std::vector<int64_t> IdxDimensions(const std::string& path,
                                   std::string_view bytes,
                                   size_t dimensions,
                                   std::string_view* data) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const size_t header = 4 + 4 * dimensions;
  if (bytes.size() < header || byte(0) != 0 || byte(1) != 0 || byte(2) != 8 ||
      byte(3) != dimensions) {
    throw WrongDataFile(path,
                        "\"" + path + "\" does not begin as an IDX file of unsigned bytes with " +
                            std::to_string(dimensions) + " dimensions does (00 00 08 0" +
                            std::to_string(dimensions) + ").",
                        path.find("labels") != path.npos && dimensions > 1
                            ? "Name the files of images; the labels beside them are found by name."
                            : kIdxHint);
  }
  std::vector<int64_t> sizes;
  int64_t total = 1;
  for (size_t i = 4; i < header; i += 4) {
    const int64_t size =
        int64_t{byte(i)} << 24 | byte(i + 1) << 16 | byte(i + 2) << 8 | byte(i + 3);
    sizes.push_back(size);
    // Saturates, because the product of three 32-bit sizes may exceed 63 bits.
    const bool fits = size == 0 || total <= std::numeric_limits<int64_t>::max() / size;
    total = fits ? total * size : std::numeric_limits<int64_t>::max();
  }
  *data = bytes.substr(header);
  if (total != static_cast<int64_t>(data->size())) {
    throw WrongDataFile(path,
                        "The header of \"" + path + "\" announces " + std::to_string(total) +
                            " bytes, and " + std::to_string(data->size()) + " follow.",
                        "Copy the file again: it is cut off or damaged.");
  }
  return sizes;
}

std::string LabelsFileOf(const std::string& images) {
  std::filesystem::path path(images);
  std::string name = path.filename().string();
  const auto replace = [&](std::string_view from, std::string_view to) {
    const size_t at = name.find(from);
    if (at != name.npos) name.replace(at, from.size(), to);
    return at != name.npos;
  };
  if (!replace("images", "labels") || !replace("idx3", "idx1")) {
    throw WrongDataFile(images,
                        "The name \"" + name +
                            "\" has no \"images\" and \"idx3\" to find its "
                            "labels by.",
                        "Name files as MNIST does: train-images-idx3-ubyte beside "
                        "train-labels-idx1-ubyte.");
  }
  path.replace_filename(name);
  // Looks for both names, because only one of the two files may be compressed.
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return path.string();
  std::filesystem::path other = path;
  if (path.extension() == ".gz") {
    other.replace_extension();
  } else {
    other += ".gz";
  }
  if (std::filesystem::exists(other, ignored)) return other.string();
  throw WrongDataFile(
      images,
      "The labels of \"" + images + "\" are not there: \"" + path.string() + "\" was expected.",
      kIdxHint);
}

void AppendPixels(std::string_view bytes, ImageArrays::Contents& contents) {
  contents.pixels.Append(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

void AppendLabels(const std::string& path,
                  std::string_view labels,
                  int64_t known_classes,
                  ImageArrays::Contents& contents) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const int64_t label = static_cast<uint8_t>(labels[i]);
    if (known_classes > 0 && label >= known_classes) {
      throw Failure(Error{.code = Code::kUsage,
                          .title = "UNKNOWN LABEL",
                          .where = path,
                          .what = "Label " + std::to_string(i) + " (from 0) of \"" + path +
                                  "\" is " + std::to_string(label) + "; the " +
                                  std::to_string(known_classes) + " classes are 0 to " +
                                  std::to_string(known_classes - 1) + ".",
                          .hint = "They are data.labels, or else those of the training data.",
                          .page = "unknown-label"});
    }
    contents.labels.push_back(label);
    contents.classes = std::max(contents.classes, label + 1);
  }
}

void AppendIdx(const std::string& path, int64_t known_classes, ImageArrays::Contents& contents) {
  const FileBytes images = ReadDataFile(path);
  std::string_view pixels;
  const std::vector<int64_t> sizes = IdxDimensions(path, images.text(), 3, &pixels);
  const std::string labels_path = LabelsFileOf(path);
  const FileBytes label_bytes = ReadDataFile(labels_path);
  std::string_view labels;
  const std::vector<int64_t> label_sizes =
      IdxDimensions(labels_path, label_bytes.text(), 1, &labels);
  if (label_sizes[0] != sizes[0]) {
    throw WrongDataFile(labels_path,
                        "\"" + labels_path + "\" has " + std::to_string(label_sizes[0]) +
                            " labels for the " + std::to_string(sizes[0]) + " images of \"" + path +
                            "\".",
                        kIdxHint);
  }
  const bool first = contents.labels.empty();
  if (!first && (contents.height != sizes[1] || contents.width != sizes[2])) {
    throw WrongDataFile(path,
                        "Its images have " + std::to_string(sizes[1]) + " x " +
                            std::to_string(sizes[2]) + " pixels, those of the files before " +
                            std::to_string(contents.height) + " x " +
                            std::to_string(contents.width) + ".",
                        "Take files with images of one size.");
  }
  contents.height = sizes[1];
  contents.width = sizes[2];
  AppendPixels(pixels, contents);
  AppendLabels(labels_path, labels, known_classes, contents);
}

void AppendCifar(const std::string& path, size_t label_bytes, ImageArrays::Contents& contents) {
  const size_t pixels = 3 * 32 * 32;
  const size_t record = label_bytes + pixels;
  const FileBytes bytes = ReadDataFile(path);
  const std::string_view text = bytes.text();
  if (text.size() % record != 0) {
    throw WrongDataFile(path,
                        "\"" + path + "\" has " + std::to_string(text.size()) +
                            " bytes, no multiple of the " + std::to_string(record) +
                            " that an image of CIFAR-" + std::to_string(contents.classes) +
                            " takes.",
                        "The binary version of CIFAR is expected (not the Python one).");
  }
  for (size_t at = 0; at < text.size(); at += record) {
    const auto label = static_cast<uint8_t>(text[at + label_bytes - 1]);
    if (label >= contents.classes) {
      throw WrongDataFile(path,
                          "Image " + std::to_string(at / record) + " of \"" + path +
                              "\" has label " + std::to_string(label) + "; CIFAR-" +
                              std::to_string(contents.classes) + " has 0 to " +
                              std::to_string(contents.classes - 1) + ".",
                          "Set data.format to \"cifar10\" or \"cifar100\", as the file is.");
    }
    contents.labels.push_back(label);
    const std::string_view image = text.substr(at + label_bytes, pixels);
    AppendPixels(image, contents);
  }
}

// Returns the class names from the list that is published with the files; empty if it is missing.
std::vector<std::string> CifarNames(Cifar kind, const std::string& path) {
  const char* const list = kind == Cifar::k10 ? "batches.meta.txt" : "fine_label_names.txt";
  std::ifstream file(std::filesystem::path(path).replace_filename(list));
  std::vector<std::string> names;
  for (std::string name; std::getline(file, name);) {
    if (!name.empty()) names.push_back(std::move(name));
  }
  return names;
}

std::unique_ptr<Dataset> MakeImageArrays(ImageArrays::Contents contents,
                                         const std::vector<std::string>& files,
                                         const ImageOptions& options) {
  if (contents.labels.empty()) {
    throw WrongDataFile(files.front(), "The data files have no image.",
                        "Name files that have images in them.");
  }
  return std::make_unique<ImageArrays>(std::move(contents), options);
}

}  // namespace

ImageArrays::ImageArrays(Contents contents, const ImageOptions& options)
    : contents_(std::move(contents)), options_(options), normalizer_(options, contents_.channels) {}

DataShape ImageArrays::shape() const {
  return {.input = {contents_.channels, contents_.height, contents_.width},
          .classes = contents_.classes,
          .labels = contents_.class_names};
}

std::map<std::string, std::string> ImageArrays::ModelFiles() const {
  return {{kImagesFileName,
           DescribeImages(options_, contents_.channels, contents_.height, contents_.width)}};
}

Batch ImageArrays::Make(std::span<const int64_t> indices, std::optional<int64_t> epoch) const {
  const auto count = static_cast<int64_t>(indices.size());
  const int64_t height = contents_.height;
  const int64_t width = contents_.width;
  const int64_t values = contents_.channels * height * width;
  Batch batch{.inputs = at::empty({count, contents_.channels, height, width}, at::kFloat),
              .targets = at::empty({count}, at::kLong),
              .samples = count,
              .predictions = count};
  auto* to = batch.inputs.mutable_data_ptr<float>();
  auto* labels = batch.targets.mutable_data_ptr<int64_t>();
  for (const int64_t index : indices) {
    DDPRUN_CHECK(index >= 0 && index < size());
    const uint8_t* image = contents_.pixels.data() + index * values;
    const auto pixel = [&](size_t channel, int64_t y, int64_t x) {
      return image[(static_cast<int64_t>(channel) * height + y) * width + x];
    };
    SampleRandom random(options_.seed, epoch.value_or(0), index);
    const Shift shift = epoch ? DrawShift(options_, random) : Shift();
    normalizer_.Write(height, width, shift, pixel, to);
    to += values;
    *labels++ = contents_.labels[index];
  }
  return batch;
}

std::unique_ptr<Dataset> OpenIdx(const std::vector<std::string>& files,
                                 const ImageOptions& options,
                                 const IdxClasses& classes) {
  ImageArrays::Contents contents;
  contents.channels = 1;
  contents.classes = classes.count;
  contents.class_names = classes.names;
  for (const std::string& file : files) AppendIdx(file, classes.count, contents);
  return MakeImageArrays(std::move(contents), files, options);
}

std::unique_ptr<Dataset> OpenCifar(Cifar kind,
                                   const std::vector<std::string>& files,
                                   const ImageOptions& options) {
  ImageArrays::Contents contents;
  contents.channels = 3;
  contents.height = contents.width = 32;
  contents.classes = kind == Cifar::k10 ? 10 : 100;
  for (const std::string& file : files) AppendCifar(file, kind == Cifar::k10 ? 1 : 2, contents);
  std::vector<std::string> names = CifarNames(kind, files.front());
  if (std::ssize(names) == contents.classes) contents.class_names = std::move(names);
  return MakeImageArrays(std::move(contents), files, options);
}

}  // namespace ddprun::trainer
