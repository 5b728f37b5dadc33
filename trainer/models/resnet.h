// ResNet (He et al. 2015) as torchvision's resnet18 to resnet101: the same names of parameters and
// buffers, so that its state dicts can be loaded.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "trainer/models/loss.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

struct ResNetOptions {
  int64_t depth = 18;  // 18, 34: blocks of two convolutions; 50, 101: of three (bottlenecks)
  int64_t in_channels = 3;
  int64_t num_labels = 1000;
  LossOptions loss = {};
  // True: torchvision's distributions, from torch's default generator.
  bool initialize = true;
};

// Takes images float32 [B, in_channels, H, W] of any size. Its batch normalisation has buffers:
// running means that training changes. Throws Failure for another depth or sizes below 1.
std::shared_ptr<Model> MakeResNet(const ResNetOptions& options);

}  // namespace ddprun::trainer
