// The parameters of a model's layers, and their division among ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/compute/tensor_axis.h"

namespace torch::nn {
class Module;
}

namespace ddprun::trainer {

// The part of a layer that each rank has, if ranks divide the layers (SplitLayersScope).
enum class Split {
  kNone,      // the whole layer
  kOutputs,   // the rows of its matrix that make some of the outputs
  kGathered,  // as kOutputs, but all ranks get all outputs
  kInputs,    // the columns of its matrix for some of the inputs; ranks sum the outputs
};

// The two matrices that LoRA adds to a linear layer: y += scaling * B(A(dropout(x))).
struct LoraMatrices {
  at::Tensor a;  // [r, in]; undefined: the layer has none
  at::Tensor b;  // [out, r]
  double scaling = 0;
  double dropout = 0;                        // in training
  const torch::nn::Module* model = nullptr;  // knows whether it is trained
};

// A linear layer or a norm.
struct Affine {
  at::Tensor weight;
  at::Tensor bias;  // undefined: none
  WeightLayout layout = WeightLayout::kOutIn;
  Split split = Split::kNone;
  int64_t outputs = 0;               // of the whole layer, if it is split
  const TensorAxis* axis = nullptr;  // the ranks with the other parts; nullptr: this is the whole
  std::shared_ptr<LoraMatrices> lora = {};  // of Model::AddLinear(); nullptr: none
};

// A linear layer of a model, and the name of its module: "transformer.h.0.attn.c_attn".
struct LinearModule {
  std::string name;
  Affine layer;
};

struct LinearOptions {
  bool bias = true;
  Split split = Split::kNone;
  WeightLayout layout = WeightLayout::kOutIn;
  int64_t fused = 1;  // number of equal layers in one matrix; each is split
};

// A vector for each word of a vocabulary.
struct WordVectors {
  at::Tensor weight;  // [vocabulary, width], or this rank's rows of it
  int64_t vocabulary = 0;
  const TensorAxis* axis = nullptr;  // see Affine::axis
};

// While it lives, this thread makes models with the part of their layers that belongs to `axis`'
// rank. Models that cannot be split are made whole. nullptr: whole models. Not nested.
class SplitLayersScope {
 public:
  explicit SplitLayersScope(std::shared_ptr<const TensorAxis> axis);
  ~SplitLayersScope();
  SplitLayersScope(const SplitLayersScope&) = delete;
  SplitLayersScope& operator=(const SplitLayersScope&) = delete;

  // Returns the axis of this thread's scope; nullptr outside of one.
  static std::shared_ptr<const TensorAxis> Axis();
};

}  // namespace ddprun::trainer
