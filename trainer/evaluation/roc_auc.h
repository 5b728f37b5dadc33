// The area under the ROC curve of a validation pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace ddprun::trainer {

// Keeps the probabilities of all predictions: 8 bytes each, for more than two classes times the
// classes. One thread. The definition is scikit-learn's (1.9): of two classes, the area for class
// 1; else the mean over the classes, each against all others.
class RocAuc {
 public:
  // `outputs`: the scores of the classes, [N, classes]. `actual`: int64 [N].
  void Add(const at::Tensor& outputs, const at::Tensor& actual);
  // A collective. Gathers the probabilities of all ranks. `control`: see
  // MetricSums::SumOverRanks().
  void Gather(c10d::Backend* control);
  // Returns the mean over the classes that some predictions have as target and others have not; NaN
  // if there is no such class.
  double Value() const;

 private:
  int64_t columns_ = 0;  // probabilities of one prediction: 1 for two classes
  std::vector<double> probabilities_;
  std::vector<int64_t> actual_;
};

}  // namespace ddprun::trainer
