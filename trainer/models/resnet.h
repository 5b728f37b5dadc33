// ResNet (He et al. 2015), with the parameter and buffer names of torchvision's resnet18 to
// resnet101, so that their state dicts can be loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/models/model.h"

namespace ddprun::trainer {

struct ResNetOptions {
  static constexpr const char* kType = "resnet";

  int64_t depth = 18;  // 18, 34: blocks of two convolutions; 50, 101: of three (bottlenecks)
  std::vector<int64_t> image = {};  // of one sample: {C, H, W}; empty: RGB of any size
  int64_t num_labels = 1000;

  int64_t in_channels() const { return image.empty() ? 3 : image.front(); }
  bool operator==(const ResNetOptions&) const = default;
};

// Makes the model. It takes images float32 [B, in_channels(), H, W] of any size. Its batch
// normalization has buffers, the running means, which training changes. Throws Failure for another
// depth or sizes below 1.
std::shared_ptr<Model> MakeResNet(const ResNetOptions& options);

}  // namespace ddprun::trainer
