// The memory of gradients: flat buckets in the process group's memory, and a view of a bucket for
// each parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <ddprun/comm_hook.h>
#include "trainer/parallel/bucket_plan.h"

namespace ddprun::trainer {

// Returns a part of `flat` that autograd does not know as a view, because torch::optim's
// zero_grad() cannot detach views.
at::Tensor PartOf(const at::Tensor& flat, int64_t offset, at::IntArrayRef sizes);

// Several threads may call Take() for different parameters. Only one thread may call other methods.
class GradientBuckets {
 public:
  struct Bucket {
    GradientBucket gradients;
    std::vector<at::Tensor> parameters;  // the parameters of the gradients
  };

  // Throws Failure if a parameter is not dense, or if parameters are on different devices.
  GradientBuckets(std::vector<NamedParameter> parameters, c10::intrusive_ptr<c10d::Backend> group);

  // Returns PlanBuckets() of parameters().
  std::vector<std::vector<size_t>> Plan(std::span<const size_t> order,
                                        const BucketLimits& limits) const;
  // Makes new buckets in new memory. Gradients that are views of the old buckets do not change.
  void Layout(const std::vector<std::vector<size_t>>& plan);

  // Throws Failure if a parameter's type, size or device has changed since the construction.
  void CheckUnchanged() const;

  // Replaces the parameter's gradient, which must be dense, by its view with equal values.
  void Take(size_t index);

  // Drops all gradients, as an optimizer's zero_grad() does.
  void DropGradients();

  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  std::vector<Bucket>& buckets() { return buckets_; }  // in the order of sending
  const std::vector<Bucket>& buckets() const { return buckets_; }
  const std::vector<at::Tensor>& views() const { return views_; }  // by parameter
  std::vector<at::Tensor> Flat() const;                            // by bucket
  std::vector<std::vector<std::string>> Names() const;             // by bucket

 private:
  void AddBucket(const std::vector<size_t>& members);

  const std::vector<NamedParameter> parameters_;
  const c10::intrusive_ptr<c10d::Backend> group_;
  std::vector<Bucket> buckets_;
  std::vector<at::Tensor> views_;
};

}  // namespace ddprun::trainer
