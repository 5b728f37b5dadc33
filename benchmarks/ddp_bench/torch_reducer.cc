#include "benchmarks/ddp_bench/torch_reducer.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "trainer/strategies/single.h"

namespace ddprun::bench {

namespace {

c10::intrusive_ptr<c10d::ProcessGroup> ProcessGroupOf(
    const c10::intrusive_ptr<HostProcessGroup>& group) {
  auto process_group = c10::make_intrusive<c10d::ProcessGroup>(group->getRank(), group->getSize());
  process_group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::CUSTOM, group);
  return process_group;
}

// The step of a single process; the reducer's hooks average the gradients.
class TorchReducer : public trainer::Strategy {
 public:
  TorchReducer(const std::vector<at::Tensor>& parameters,
               std::unique_ptr<trainer::Strategy> single,
               const c10::intrusive_ptr<HostProcessGroup>& group,
               const ddprun::BucketLimits& limits)
      : single_(std::move(single)),
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

  void ForwardBackward(const trainer::StepInputs& inputs) override {
    reducer_->rebuild_buckets();
    reducer_->prepare_for_backward({});
    single_->ForwardBackward(inputs);
  }
  std::vector<at::Tensor> Gradients() override { return single_->Gradients(); }
  DeviceScalar GradientNorm() override { return single_->GradientNorm(); }
  DeviceScalar ClipGradients(double max_norm) override { return single_->ClipGradients(max_norm); }
  void Step() override { single_->Step(); }
  void SwapAverages() override { single_->SwapAverages(); }
  void NameState(StateVisitor& visitor) override { single_->NameState(visitor); }
  double exposed_seconds() const override { return -1; }

 private:
  // Returns buckets from the last parameter to the first, as DistributedDataParallel does.
  static std::vector<std::vector<size_t>> BucketsOf(const std::vector<at::Tensor>& parameters,
                                                    const ddprun::BucketLimits& limits) {
    const std::vector<size_t> sizes = {static_cast<size_t>(limits.first_bytes),
                                       static_cast<size_t>(limits.cap_bytes)};
    auto buckets =
        std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, sizes, {}, {}, {}));
    return {buckets.rbegin(), buckets.rend()};
  }

  const std::unique_ptr<trainer::Strategy> single_;
  const std::unique_ptr<c10d::Reducer> reducer_;  // its destructor may throw
};

}  // namespace

std::unique_ptr<trainer::Strategy> MakeTorchReducer(
    std::shared_ptr<trainer::Model> model,
    std::unique_ptr<Optimizer> optimizer,
    const c10::intrusive_ptr<HostProcessGroup>& group,
    const ddprun::BucketLimits& limits) {
  const std::vector<at::Tensor> parameters = model->parameters();
  auto single = trainer::MakeSingle(std::move(model), std::move(optimizer));
  return std::make_unique<TorchReducer>(parameters, std::move(single), group, limits);
}

}  // namespace ddprun::bench
