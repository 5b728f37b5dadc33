// DistributedDataParallel for your own torch::nn::Module:
//
//   const auto group = ddprun::init_process_group();
//   ddprun::DistributedDataParallel<Net> net(std::make_shared<Net>(), group);
//   torch::optim::SGD optimizer(net.module().parameters(), 0.1);
//   for (...) {
//     optimizer.zero_grad();
//     loss(net(input), target).backward();  // the gradients are the average over all ranks
//     optimizer.step();
//   }
//
// As torch.nn.parallel.DistributedDataParallel (torch 2.11) with gradient_as_bucket_view: gradients
// are views of buckets, so replace a gradient's values, not the tensor, between backward and step.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainer/parallel/model_averager.h"
#include "trainer/parallel/module_sync.h"

namespace ddprun {

using trainer::CommHook;
using trainer::DistributedDataParallelOptions;
using trainer::GradientBucket;
using trainer::MakeCompressHook;
using trainer::MakePostLocalSgdHook;
using trainer::MakePowerSgdHook;
using trainer::PeriodicModelAverager;
using trainer::PostLocalSgdOptions;
using trainer::PowerSgdOptions;
using Overlap = trainer::ReducerOptions::Overlap;

// One thread, the same on all ranks' programs: all ranks call forward and backward equally often,
// unless they are within join().
template <typename Module>
class DistributedDataParallel {
 public:
  // A collective. Checks that all ranks have the same model (else Failure: the first tensor that
  // differs) and copies rank 0's parameters and buffers to all. Parameters that are frozen later
  // must be frozen before. `mesh`: a process group, or two, one of them for host tensors.
  DistributedDataParallel(std::shared_ptr<Module> module,
                          const trainer::Mesh& mesh,
                          const DistributedDataParallelOptions& options = {})
      : module_(std::move(module)),
        sync_(*module_, mesh, trainer::ModuleSync::OptionsOf(options)) {}

  // The module's forward. The next backward averages the gradients, unless within no_sync() or
  // where gradients are disabled. Throws Failure; so does that backward.
  template <typename... Inputs>
  auto forward(Inputs&&... inputs) {
    sync_.BeforeForward();
    auto output = module_->forward(std::forward<Inputs>(inputs)...);
    std::vector<at::Tensor> tensors;
    Collect(output, tensors);
    sync_.AfterForward(tensors);
    return output;
  }
  template <typename... Inputs>
  auto operator()(Inputs&&... inputs) {
    return forward(std::forward<Inputs>(inputs)...);
  }

  Module& module() { return *module_; }
  const std::shared_ptr<Module>& ptr() { return module_; }

  // While the returned object lives, gradients of forwards only add up on this rank.
  [[nodiscard]] auto no_sync() { return sync_.no_sync(); }

  // For overlap kStep and kBoth, after backward and instead of optimizer.step(): waits for one
  // bucket after the other and calls `update` with the parameters of each, while the later ones are
  // still being averaged. An optimizer that can step some parameters at a time is that of
  // trainer/optim/optimizer.h:
  //
  //   net.wait_for_buckets([&](std::span<const at::Tensor> parameters) {
  //     optimizer->Step(learning_rate, parameters);
  //   });
  //
  // Without `update` it returns when all gradients are there, for an optimizer of torch::optim.
  // Throws Failure when a collective fails; the buckets before it have been updated then.
  void wait_for_buckets(
      const std::function<void(std::span<const at::Tensor> parameters)>& update = {}) {
    sync_.reducer().WaitForBuckets(update);
  }

  // For ranks with unequal numbers of batches: runs `body`, which has this rank's steps in it, and
  // then goes along with the others, giving zeros, until all are through. In the end all ranks have
  // the parameters of the one that went on longest. Averages stay sums over all ranks divided by
  // their number. Collective.
  void join(const std::function<void()>& body) { sync_.Join(body); }

  // With options.tune_buckets: what was found, or nullptr as long as nothing is. The same on all
  // ranks.
  const trainer::BucketTuning* tuning() const { return sync_.reducer().tuning(); }

  // Seconds that the last backward waited for communication.
  double exposed_seconds() const { return sync_.reducer().exposed_seconds(); }

 private:
  // Tensors in what a forward returns: a tensor, or a tuple, pair or vector of such. Others are not
  // looked into; unused parameters are then found when backward has ended.
  static void Collect(const at::Tensor& tensor, std::vector<at::Tensor>& out) {
    out.push_back(tensor);
  }
  template <typename Output>
  static void Collect(const Output& output, std::vector<at::Tensor>& out) {
    if constexpr (requires { std::tuple_size<Output>::value; }) {
      std::apply([&](const auto&... parts) { (Collect(parts, out), ...); }, output);
    } else if constexpr (requires { output.begin() != output.end(); }) {
      for (const auto& part : output) Collect(part, out);
    }
  }

  const std::shared_ptr<Module> module_;
  trainer::ModuleSync sync_;
};

}  // namespace ddprun
