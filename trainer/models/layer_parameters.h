// What the layers of a model are made of, and where.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "trainer/compute/tensor_axis.h"

namespace ddprun::trainer {

// Which part of a layer each rank has, where ranks share out layers (LayersOver).
enum class Split {
  kNone,      // all of it
  kOutputs,   // the rows of its matrix that make some of the outputs
  kGathered,  // the same, but all ranks get all outputs
  kInputs,    // the columns of its matrix that some of the inputs meet: outputs are summed
};

// A linear layer or a norm.
struct Affine {
  at::Tensor weight;
  at::Tensor bias;  // undefined: none
  WeightLayout layout = WeightLayout::kOutIn;
  Split split = Split::kNone;
  int64_t outputs = 0;               // of the whole, where it is split
  const TensorAxis* axis = nullptr;  // who has the other parts; nullptr: this is the whole
};

struct LinearOptions {
  bool bias = true;
  Split split = Split::kNone;
  WeightLayout layout = WeightLayout::kOutIn;
  int64_t fused = 1;  // so many equal layers beside each other, each of them split
};

// A vector for each word of a vocabulary.
struct WordVectors {
  at::Tensor weight;  // [vocabulary, width], or this rank's rows of it
  int64_t vocabulary = 0;
  const TensorAxis* axis = nullptr;  // as Affine's
};

// While it lives, the models that this thread makes have the part of their layers that is `axis`'
// rank's; models that cannot be split are made whole. nullptr: whole. Not nested.
class LayersOver {
 public:
  explicit LayersOver(std::shared_ptr<const TensorAxis> axis);
  ~LayersOver();
  LayersOver(const LayersOver&) = delete;
  LayersOver& operator=(const LayersOver&) = delete;
};

}  // namespace ddprun::trainer
