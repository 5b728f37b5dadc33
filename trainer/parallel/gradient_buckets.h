// Where gradients live: flat buckets in the process group's memory, and a view of one for each
// parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/parallel/bucket_plan.h"
#include "trainer/parallel/comm_hook.h"

namespace ddprun::trainer {

// A part of `flat` that autograd does not know as a view: torch::optim's zero_grad() cannot detach
// those.
at::Tensor PartOf(const at::Tensor& flat, int64_t offset, at::IntArrayRef sizes);

// Gradients of different parameters may be taken on several threads; all else on one.
class GradientBuckets {
 public:
  struct Bucket {
    GradientBucket gradients;
    std::vector<at::Tensor> parameters;  // whose gradients they are
  };

  // Throws Failure for parameters that are not dense or not on one device.
  GradientBuckets(std::vector<NamedParameter> parameters, c10::intrusive_ptr<c10d::Backend> group);

  // What PlanBuckets makes of these parameters.
  std::vector<std::vector<size_t>> Plan(std::span<const size_t> order,
                                        const BucketLimits& limits) const;
  // Makes new buckets, in new memory. Gradients that are views of the old ones stay what they are.
  void Layout(const std::vector<std::vector<size_t>>& plan);

  // Throws Failure when a parameter has got another type, size or device since.
  void CheckUnchanged() const;

  // The parameter's gradient, which is dense, becomes its view, with the values that it has.
  void Take(size_t index);

  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  std::vector<Bucket>& buckets() { return buckets_; }  // in the order of sending
  const std::vector<Bucket>& buckets() const { return buckets_; }
  const std::vector<at::Tensor>& views() const { return views_; }  // by parameter

 private:
  void AddBucket(const std::vector<size_t>& members);

  const std::vector<NamedParameter> parameters_;
  const c10::intrusive_ptr<c10d::Backend> group_;
  std::vector<Bucket> buckets_;
  std::vector<at::Tensor> views_;
};

}  // namespace ddprun::trainer
