// A small convolutional network for images: stages of 3x3 convolution, ReLU and 2x2 max-pooling,
// then two linear layers. Parameters are named conv1.weight, conv1.bias, conv2.weight, ...,
// fc1.weight, fc1.bias, fc2.weight, fc2.bias, with torch.nn's layouts.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/models/model.h"

namespace ddprun::trainer {

struct CnnOptions {
  static constexpr const char* kType = "cnn";

  std::vector<int64_t> image = {};           // of one sample: {C, H, W}
  std::vector<int64_t> channels = {32, 64};  // of each stage; a stage halves height and width
  int64_t hidden_size = 128;
  int64_t num_labels = 10;
  double dropout = 0.0;  // before the last layer

  bool operator==(const CnnOptions&) const = default;
};

// Makes the model. Throws Failure for wrong sizes, such as images too small for the stages.
std::shared_ptr<Model> MakeCnn(const CnnOptions& options);

}  // namespace ddprun::trainer
