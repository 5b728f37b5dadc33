#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/flatten_dense_tensors.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/unflatten_dense_tensors.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <vector>

#include <ddprun/comm_hook.h>
#include "base/mix_seeds.h"
#include "trainer/parallel/mesh_collectives.h"

namespace ddprun {

using namespace trainer;  // NOLINT: the internals of this library

namespace {

// The size [n, m] of a gradient as a matrix, and the number of columns of its factors; 0 means that
// it is not compressed.
struct FactorShape {
  FactorShape(at::IntArrayRef shape, int64_t numel, const PowerSgdOptions& options)
      : n(shape.size() < 2 ? 1 : shape[0]), m(numel / std::max<int64_t>(n, 1)) {
    rank = std::min({options.rank, n, m});
    const auto factors = static_cast<double>((n + m) * rank);
    const auto all = static_cast<double>(n * m);
    if (n < 2 || m < 2 || factors * options.min_compression >= all) rank = 0;
  }

  int64_t n;
  int64_t m;
  int64_t rank;
};

// One parameter's gradient as a matrix [n, m], and its factors P [n, r], Q [m, r]: the gradient is
// about P * Q^T, with orthonormal columns in P.
struct FactoredGradient {
  at::Tensor matrix;  // a view of the bucket
  at::Tensor error;   // what earlier steps left out, also a matrix
  at::Tensor p;
  at::Tensor q;
};

struct BucketState {
  at::Tensor flat;  // the bucket of this state; it differs after a new layout
  std::vector<FactoredGradient*> factored = {};
  std::vector<at::Tensor> whole = {};  // views of gradients that are not compressed
};

void CopyBack(const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  at::_foreach_copy_(tensors, at::unflatten_dense_tensors(flat, tensors));
}

// LAPACK has no 16-bit numbers.
at::Tensor Orthonormal(const at::Tensor& columns) {
  const bool wide = columns.element_size() >= 4;
  return std::get<0>(at::linalg_qr(wide ? columns : columns.to(at::kFloat))).to(columns.dtype());
}

class PowerSgdHook : public CommHook {
 public:
  explicit PowerSgdHook(const PowerSgdOptions& options) : options_(options) {}

  void NameState(std::span<const NamedParameter> parameters, StateVisitor& visitor) override {
    visitor.Number("step", step_);
    if (step_ <= options_.start_step) return;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto& [name, tensor] = parameters[i];
      const FactorShape factoring(tensor.sizes(), tensor.numel(), options_);
      if (factoring.rank == 0) continue;
      const FactoredGradient& part = PartOf(i, factoring, tensor.detach());
      visitor.Tensor(name + ".error", part.error);
      visitor.Tensor(name + ".q", part.q);
    }
  }

  std::function<void()> Start(GradientBucket& bucket, c10d::Backend& group) override {
    const at::NoGradGuard no_grad;
    if (bucket.index == 0) ++step_;
    if (bucket.last) states_.resize(std::min(states_.size(), bucket.index + 1));  // a new layout
    if (step_ <= options_.start_step) {
      return [work = BeginAllReduce(group, bucket.flat, c10d::ReduceOp::AVG)] { work->wait(); };
    }
    BucketState& state = StateOf(bucket);
    // Sends the first message: uncompressed gradients, then all P.
    std::vector<at::Tensor> first = state.whole;
    for (FactoredGradient* part : state.factored) {
      part->matrix.add_(part->error);
      part->p = at::matmul(part->matrix, Orthonormal(part->q));
      first.push_back(part->p);
    }
    const at::Tensor packed = at::flatten_dense_tensors(first);
    return
        [&state, &group, first, packed, work = BeginAllReduce(group, packed, c10d::ReduceOp::AVG)] {
          const at::NoGradGuard no_guard;
          work->wait();
          CopyBack(packed, first);
          Finish(state, group);
        };
  }

 private:
  static void Finish(BucketState& state, c10d::Backend& group) {
    if (state.factored.empty()) return;
    std::vector<at::Tensor> second;
    for (FactoredGradient* part : state.factored) {
      part->p = Orthonormal(part->p);
      part->q = at::matmul(part->matrix.t(), part->p);
      second.push_back(part->q);
    }
    const at::Tensor packed = at::flatten_dense_tensors(second);
    BeginAllReduce(group, packed, c10d::ReduceOp::AVG)->wait();
    CopyBack(packed, second);
    for (FactoredGradient* part : state.factored) {
      const at::Tensor product = at::matmul(part->p, part->q.t());
      part->error = part->matrix - product;
      part->matrix.copy_(product);
    }
  }

  BucketState& StateOf(const GradientBucket& bucket) {
    if (states_.size() <= bucket.index) states_.resize(bucket.index + 1);
    BucketState& state = states_[bucket.index];
    if (state.flat.defined() && state.flat.is_same(bucket.flat)) return state;
    state = BucketState{.flat = bucket.flat};
    for (size_t i = 0; i < bucket.gradients.size(); ++i) {
      const at::Tensor& gradient = bucket.gradients[i];
      const FactorShape factoring(gradient.sizes(), gradient.numel(), options_);
      if (factoring.rank == 0) {
        state.whole.push_back(gradient);
        continue;
      }
      FactoredGradient& part = PartOf(bucket.parameters.at(i), factoring, gradient);
      part.matrix = gradient.view({factoring.n, factoring.m});
      state.factored.push_back(&part);
    }
    return state;
  }

  // `like`: a tensor of the gradient's device and type.
  FactoredGradient& PartOf(size_t parameter, const FactorShape& factoring, const at::Tensor& like) {
    FactoredGradient& part = factored_[parameter];
    if (part.q.defined()) return part;
    part.error = at::zeros({factoring.n, factoring.m}, like.options());
    at::Generator generator =
        at::make_generator<at::CPUGeneratorImpl>(MixSeeds({options_.seed, parameter}));
    part.q = at::randn({factoring.m, factoring.rank}, generator, at::kFloat).to(like.options());
    return part;
  }

  const PowerSgdOptions options_;
  int64_t step_ = 0;
  std::unordered_map<size_t, FactoredGradient> factored_;  // by parameter; buckets hold pointers
  std::deque<BucketState> states_;  // by bucket; finish functions hold references
};

}  // namespace

std::shared_ptr<CommHook> MakePowerSgdHook(const PowerSgdOptions& options) {
  return std::make_shared<PowerSgdHook>(options);
}

}  // namespace ddprun
