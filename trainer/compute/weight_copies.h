// Copies of weights in the type of products.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <unordered_map>
#include <vector>

namespace ddprun::trainer {

// While it lives, InTypeOfProducts() of this thread finds the copies of these weights. On CUDA, one
// kernel copies many weights; otherwise a weight is copied when it is used. Equal matrices that
// follow each other are neighbours in memory. Nested ones hide each other.
class WeightCopies {
 public:
  // Copies nothing unless ComputeType() has 16 bits and gradients are computed, because backward
  // keeps all copies, but a forward pass alone only one. The weights must have their values now.
  explicit WeightCopies(std::span<const at::Tensor> weights);
  ~WeightCopies();
  WeightCopies(const WeightCopies&) = delete;
  WeightCopies& operator=(const WeightCopies&) = delete;

 private:
  friend at::Tensor InTypeOfProducts(const at::Tensor& weight);

  const WeightCopies* const before_;
  const at::ScalarType type_;
  std::unordered_map<const at::TensorImpl*, at::Tensor> copies_;
};

// Returns the weight, or its copy in ComputeType(weight.scalar_type()).
at::Tensor InTypeOfProducts(const at::Tensor& weight);

// Returns the rows of all matrices (the numbers of all vectors) in InTypeOfProducts() below each
// other. If the copies are neighbours, the result is a view of them.
at::Tensor JoinInTypeOfProducts(at::TensorList weights);

}  // namespace ddprun::trainer
