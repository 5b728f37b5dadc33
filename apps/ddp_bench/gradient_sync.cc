#include "apps/ddp_bench/gradient_sync.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace ddprun::bench {

namespace {

using trainer::NamedParameter;
using trainer::Reducer;

std::vector<at::Tensor> TensorsOf(const std::vector<NamedParameter>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const NamedParameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

void DropGradients(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
}

class Single : public GradientSync {
 public:
  explicit Single(const std::vector<NamedParameter>& parameters)
      : parameters_(TensorsOf(parameters)) {}
  ~Single() override { DropGradients(parameters_); }
  void BeginStep() override { DropGradients(parameters_); }
  void Prepare() override {}
  void Update(const Reducer::Ready& update) override { update(parameters_); }
  double waited() const override { return 0; }

 private:
  const std::vector<at::Tensor> parameters_;
};

class Ours : public GradientSync {
 public:
  Ours(std::vector<NamedParameter> parameters,
       c10::intrusive_ptr<c10d::Backend> group,
       const trainer::ReducerOptions& options,
       bool communicate)
      : communicate_(communicate),
        by_bucket_(options.WaitsInStep()),
        parameters_(TensorsOf(parameters)),
        reducer_(std::move(parameters), std::move(group), options) {}
  ~Ours() override { DropGradients(parameters_); }
  void BeginStep() override { reducer_.BeginStep(); }
  void Prepare() override { reducer_.PrepareBackward(communicate_); }
  void Update(const Reducer::Ready& update) override {
    if (by_bucket_) return reducer_.WaitForBuckets(update);
    update(parameters_);
  }
  double waited() const override { return reducer_.exposed_seconds(); }
  std::vector<at::Tensor> Buckets() const override {
    return communicate_ ? reducer_.FlatGradients() : std::vector<at::Tensor>();
  }

 private:
  const bool communicate_;
  const bool by_bucket_;
  const std::vector<at::Tensor> parameters_;
  Reducer reducer_;
};

c10::intrusive_ptr<c10d::ProcessGroup> ProcessGroupOf(
    const c10::intrusive_ptr<trainer::HostProcessGroup>& group) {
  auto process_group = c10::make_intrusive<c10d::ProcessGroup>(group->getRank(), group->getSize());
  process_group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::CUSTOM, group);
  return process_group;
}

class Torch : public GradientSync {
 public:
  Torch(const std::vector<at::Tensor>& parameters,
        const c10::intrusive_ptr<trainer::HostProcessGroup>& group,
        const trainer::BucketLimits& limits)
      : parameters_(parameters),
        reducer_(
            std::make_unique<c10d::Reducer>(parameters,
                                            BucketsOf(parameters, limits),
                                            ProcessGroupOf(group),
                                            std::vector<bool>(parameters.size(), false),
                                            limits.cap_bytes,
                                            /*find_unused_parameters=*/false,
                                            /*gradient_as_bucket_view=*/true,
                                            std::unordered_map<size_t, std::string>(),
                                            limits.first_bytes,
                                            /*skip_all_reduce_unused_params=*/false,
                                            /*use_python_reducer=*/false,
                                            /*bucket_bytes_cap_list=*/std::vector<int64_t>())) {}
  ~Torch() override { DropGradients(parameters_); }
  void BeginStep() override {
    DropGradients(parameters_);
    reducer_->rebuild_buckets();
  }
  void Prepare() override { reducer_->prepare_for_backward({}); }
  void Update(const Reducer::Ready& update) override { update(parameters_); }
  double waited() const override { return -1; }

 private:
  // As PyTorch's DistributedDataParallel does: from the last parameter to the first.
  static std::vector<std::vector<size_t>> BucketsOf(const std::vector<at::Tensor>& parameters,
                                                    const trainer::BucketLimits& limits) {
    const std::vector<size_t> sizes = {static_cast<size_t>(limits.first_bytes),
                                       static_cast<size_t>(limits.cap_bytes)};
    auto buckets =
        std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, sizes, {}, {}, {}));
    return {buckets.rbegin(), buckets.rend()};
  }

  const std::vector<at::Tensor> parameters_;
  const std::unique_ptr<c10d::Reducer> reducer_;  // its destructor may throw
};

}  // namespace

std::unique_ptr<GradientSync> MakeSingle(std::vector<NamedParameter> parameters) {
  return std::make_unique<Single>(parameters);
}

std::unique_ptr<GradientSync> MakeReducer(std::vector<NamedParameter> parameters,
                                          c10::intrusive_ptr<c10d::Backend> group,
                                          const trainer::ReducerOptions& options,
                                          bool communicate) {
  return std::make_unique<Ours>(std::move(parameters), std::move(group), options, communicate);
}

std::unique_ptr<GradientSync> MakeTorchReducer(std::vector<NamedParameter> parameters,
                                               c10::intrusive_ptr<trainer::HostProcessGroup> group,
                                               const trainer::BucketLimits& limits) {
  return std::make_unique<Torch>(TensorsOf(parameters), group, limits);
}

}  // namespace ddprun::bench
