// ResNet (He et al. 2015) as torchvision's resnet18 to resnet101: the same names of parameters and
// buffers, so that its state dicts can be loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/models/model.h"

namespace ddprun::trainer {

struct ResNetOptions {
  static constexpr const char* kType = "resnet";

  int64_t depth = 18;  // 18, 34: blocks of two convolutions; 50, 101: of three (bottlenecks)
  std::vector<int64_t> image = {};  // of one sample: {C, H, W}; empty: of any height and width, RGB
  int64_t num_labels = 1000;

  int64_t in_channels() const { return image.empty() ? 3 : image.front(); }
  bool operator==(const ResNetOptions&) const = default;
};

// Takes images float32 [B, in_channels(), H, W] of any size. Its batch normalisation has buffers:
// running means that training changes. Throws Failure for another depth or sizes below 1.
std::shared_ptr<Model> MakeResNet(const ResNetOptions& options);

}  // namespace ddprun::trainer
