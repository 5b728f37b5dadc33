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
// Like torch.nn.parallel.DistributedDataParallel (torch 2.11) with gradient_as_bucket_view:
// gradients are views of buckets, so replace their values, not the tensors, before step.
#pragma once

#include <c10/util/ScopeExit.h>

#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <ddprun/comm_hook.h>
#include <ddprun/data_parallel_options.h>
#include <ddprun/mesh.h>

namespace torch::nn {
class Module;
}

namespace ddprun {

namespace trainer {
class ModuleSync;
}

// What DistributedDataParallel does for a module of any type. One thread.
class DataParallelBase {
 public:
  ~DataParallelBase();
  DataParallelBase(const DataParallelBase&) = delete;
  DataParallelBase& operator=(const DataParallelBase&) = delete;

  // While the returned object lives, this rank only accumulates its gradients.
  [[nodiscard]] auto no_sync() {
    return c10::make_scope_exit([this, before = SetSynchronize(false)] { SetSynchronize(before); });
  }

  // Call it after backward instead of optimizer.step(), with overlap kStep or kBoth. Waits for each
  // bucket in turn and calls `update` with its parameters while later buckets are still being
  // averaged. An optimizer of optimizer.h can step some parameters at a time:
  //
  //   net.wait_for_buckets([&](std::span<const at::Tensor> parameters) {
  //     optimizer->Step(learning_rate, parameters);
  //   });
  //
  // Without `update`, waits for all gradients, for an optimizer of torch::optim. Throws Failure if
  // a collective fails; the buckets before it have been updated then.
  void wait_for_buckets(
      const std::function<void(std::span<const at::Tensor> parameters)>& update = {});

  // Trains with unequal numbers of batches on the ranks. Runs `body`, which contains this rank's
  // steps, and then joins the other ranks' collectives with zeros until all ranks are done. In the
  // end all ranks have the parameters of a rank that trained longest. Averages are always sums
  // divided by the number of all ranks. Collective.
  void join(const std::function<void()>& body);

  // Returns the result of options.tune_buckets, equal on all ranks; nullptr while the search runs.
  const BucketTuning* tuning() const;

  // Returns the seconds that the last backward waited for communication.
  double exposed_seconds() const;

 protected:
  DataParallelBase(const torch::nn::Module& module,
                   const Mesh& mesh,
                   const DistributedDataParallelOptions& options);
  void BeforeForward();
  // `outputs`: the tensors of the module's output.
  void AfterForward(std::span<const at::Tensor> outputs);

 private:
  // Sets whether the next backward averages. Returns what was set before.
  bool SetSynchronize(bool on);

  const std::unique_ptr<trainer::ModuleSync> sync_;
};

// One thread. All ranks call forward and backward equally often, except within join().
template <typename Module>
class DistributedDataParallel : public DataParallelBase {
 public:
  // A collective. Checks that all ranks have equal models and copies rank 0's parameters and
  // buffers to all ranks. Throws Failure, which names the first tensor that differs. Freeze
  // parameters before this call. `mesh`: a process group, or two, one for host tensors.
  DistributedDataParallel(std::shared_ptr<Module> module,
                          const Mesh& mesh,
                          const DistributedDataParallelOptions& options = {})
      : DataParallelBase(*module, mesh, options), module_(std::move(module)) {}

  // Runs the module's forward. The next backward averages the gradients, except within no_sync() or
  // if gradients are disabled. This call and the backward throw Failure.
  template <typename... Inputs>
  auto forward(Inputs&&... inputs) {
    BeforeForward();
    auto output = module_->forward(std::forward<Inputs>(inputs)...);
    std::vector<at::Tensor> tensors;
    Collect(output, tensors);
    AfterForward(tensors);
    return output;
  }
  template <typename... Inputs>
  auto operator()(Inputs&&... inputs) {
    return forward(std::forward<Inputs>(inputs)...);
  }

  Module& module() { return *module_; }
  const std::shared_ptr<Module>& ptr() { return module_; }

 private:
  // Collects the tensors of a forward's output: a tensor, or a tuple, pair or vector of outputs. In
  // other types, unused parameters are found only when backward has ended.
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
};

}  // namespace ddprun
