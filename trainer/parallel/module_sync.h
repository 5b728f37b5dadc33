// The work of DistributedDataParallel around a module's forward, for a module of any type.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ScopeExit.h>

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <ddprun/data_parallel.h>
#include "trainer/parallel/reducer.h"

namespace torch::nn {
class Module;
}

namespace ddprun::trainer {

// The tensors of a module. A tensor with two names is one parameter, as in PyTorch's
// named_parameters().
struct ModuleTensors {
  explicit ModuleTensors(const torch::nn::Module& module);

  std::vector<NamedParameter> all = {};  // parameters, trained or frozen, and buffers
  std::vector<NamedParameter> trained = {};
  std::vector<NamedParameter> buffers = {};
  std::vector<NamedParameter> others = {};  // frozen parameters, and buffers
};

// One thread.
class ModuleSync {
 public:
  struct Options {
    ReducerOptions reducer = {};
    bool broadcast_buffers = true;
    bool rejoins = false;  // the constructor does nothing; Rejoin() follows
  };
  static Options OptionsOf(const DistributedDataParallelOptions& options);

  // A collective, except with `rejoins`. Checks that the models agree and copies rank 0's
  // parameters and buffers to all ranks.
  ModuleSync(const torch::nn::Module& module, const Mesh& mesh, const Options& options);
  // A collective, also of ranks that were constructed with `rejoins`. Checks that the models agree
  // and calls Reducer::Rejoin().
  void Rejoin(int giver);

  void BeforeForward();
  void AfterForward(std::span<const at::Tensor> outputs);
  void Join(const std::function<void()>& body);
  // Copies the buffers of `root` to all ranks, if broadcast_buffers is set. A collective then.
  void SyncBuffers(int root = 0);
  Reducer& reducer() { return *reducer_; }
  const Reducer& reducer() const { return *reducer_; }

  // Whether the next backward averages. Returns what it was before.
  bool SetSynchronize(bool on) { return std::exchange(synchronize_, on); }
  // While the returned object lives, this rank only accumulates its gradients.
  [[nodiscard]] auto no_sync() {
    return c10::make_scope_exit([this, before = SetSynchronize(false)] { SetSynchronize(before); });
  }

 private:
  // Within join(): which rank still has data, and whether the coming backward synchronises.
  struct OtherRanks {
    int last_active = -1;  // the highest rank that has a batch; -1: none
    bool synchronize = false;
  };
  OtherRanks ExchangeActive(bool active);
  void MakeReducer();

  const Mesh mesh_;
  const ModuleTensors tensors_;
  const ReducerOptions reducer_options_;
  const bool broadcast_buffers_;
  std::unique_ptr<Reducer> reducer_;
  bool synchronize_ = true;
  bool joining_ = false;
  int source_rank_ = 0;  // the rank whose state the others take
};

// Checks that all ranks have equal models. A collective of the control group. Throws Failure on
// every rank if names, shapes, types, the order of tensors or their need of gradients differ; ranks
// that differ from rank 0 name the first difference.
void VerifySameModel(const std::vector<NamedParameter>& tensors, c10d::Backend& control);

// Copies the root's values into the tensors of all ranks. A collective.
void BroadcastFrom(int root, const std::vector<NamedParameter>& tensors, c10d::Backend& group);

}  // namespace ddprun::trainer
