// Keys of training data: images, random numbers, a plugin's data set.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

namespace {

using SampleFormats = std::vector<std::string_view>;

const SampleFormats kImages = {"idx", "cifar10", "cifar100", "image_folder"};

}  // namespace

std::vector<Key> OtherDataKeys() {
  return {
      {.DDPRUN_KEY(data, image_size),
       .meaning = "Height and width of images: the shorter side is scaled, then the middle is "
                  "cut out. 0: all images of the folder have one size.",
       .unit = "pixels",
       .range = Between(0, 8192),
       .only_for = {"data.format", {"image_folder"}},
       .aliases = {{"img_size", "timm"},
                   {"resize", "torchvision"},
                   {"resolution", "PyTorch examples"}}},
      {.DDPRUN_KEY(data, image_mean),
       .meaning = "Subtracted from pixels between 0 and 1, per channel or once for all.",
       .range = Between(-1e6, 1e6),
       .only_for = {"data.format", kImages},
       .aliases = {{"mean", "torchvision"}}},
      {.DDPRUN_KEY(data, image_std),
       .meaning = "Divides these values, per channel or once for all.",
       .range = {.min = 0, .max = 1e6, .min_excluded = true},
       .only_for = {"data.format", kImages},
       .aliases = {{"std", "torchvision"}}},
      {.DDPRUN_KEY(data, random_crop_padding),
       .meaning = "Training images get this many black pixels on each side, and a random part of "
                  "the old size is cut out.",
       .unit = "pixels",
       .range = Between(0, 1024),
       .only_for = {"data.format", kImages},
       .aliases = {{"random_crop", "torchvision"}}},
      {.DDPRUN_KEY(data, random_flip),
       .meaning = "Half of the training images are mirrored, left and right.",
       .only_for = {"data.format", kImages},
       .aliases = {{"random_horizontal_flip", "torchvision"}, {"hflip", "timm"}}},
      {.DDPRUN_KEY(data, random_resized_crop),
       .meaning = "Training images are random parts, 8 % to all of the area, scaled to "
                  "data.image_size.",
       .only_for = {"data.format", {"image_folder"}}},
      {.DDPRUN_KEY(data, num_samples),
       .meaning = "Samples of the random data set.",
       .unit = "samples",
       .range = kSizeOrZero,
       .only_for = {"data.format", {"random"}},
       .aliases = {{"n_samples", "scikit-learn"}, {"dataset_size data_size", "PyTorch examples"}}},
      {.DDPRUN_KEY(data, input_size),
       .meaning = "Numbers per random sample; the first of model.layer_sizes.",
       .range = kSizeOrZero,
       .only_for = {"data.format", {"random"}},
       .aliases = {{"n_features", "scikit-learn"}, {"in_shape", "PyTorch examples"}}},
      {.DDPRUN_KEY(data, target_size),
       .meaning = "Numbers per random target; the last of model.layer_sizes.",
       .range = kSizeOrZero,
       .only_for = {"data.format", {"random"}},
       .aliases = {{"output_size out_shape", "PyTorch examples"}}},
      {.DDPRUN_KEY(data, dataset_seed),
       .meaning = "Seed of the random data set's numbers.",
       .range = AtLeast(0),
       .derived_default = "data.data_seed",
       .only_for = {"data.format", {"random"}}},
      {.DDPRUN_KEY(data, plugin),
       .meaning = "Shared object with the data set: docs/plugins.md. Empty: the one of model.path.",
       .only_for = {"data.format", {"plugin"}},
       .input_path = true},
      {.DDPRUN_KEY(data, options),
       .meaning = "An object that the plugin's data set gets unchanged.",
       .only_for = {"data.format", {"plugin"}}},
  };
}

}  // namespace ddprun::trainer
