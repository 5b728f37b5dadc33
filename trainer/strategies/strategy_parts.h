// Functions that strategies share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ddprun/mesh.h>
#include "trainer/parallel/bucket_search.h"
#include "trainer/parallel/sharded_update.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {

// Runs forward and backward of one micro-batch. Throws Failure for errors of backward. `rest` runs
// the part of backward that the loss's graph does not contain.
void RunMicroBatch(const StepInputs& inputs,
                   size_t micro_batch,
                   Model& model,
                   const std::function<void()>& rest = {});
// Runs backward alone. `gradient` is the gradient of `output`; undefined for a loss.
void RunBackward(int64_t step,
                 const at::Tensor& output,
                 const at::Tensor& gradient = {},
                 const std::function<void()>& rest = {});

// Returns whether this rank counts a parameter's gradient in sums over the ranks of the tensor
// axis. If these ranks have equal gradients, only the first rank counts them.
bool AddsGradientToSums(const Model& model, const std::string& parameter, const Mesh& mesh);

// A model's trained parameters, and whose gradients this rank counts.
class TrainedParameters {
 public:
  TrainedParameters(const Model& model, const Mesh& mesh);
  const std::vector<at::Tensor>& all() const { return all_; }
  // Returns the defined gradients that this rank counts. `gradients` are in the order of all().
  std::vector<at::Tensor> SelectCounted(std::vector<at::Tensor> gradients) const;

 private:
  std::vector<at::Tensor> all_;
  std::vector<bool> counted_;
};

// Exchanges the parameters that this rank updates for their averages, or back. If ranks divide the
// update, `shards` gives all ranks all parameters, and this is a collective; else it is nullptr.
void ExchangeForAverages(Optimizer& optimizer, ShardedUpdate* shards);

// Returns the pieces of the parameters that this rank updates, and their state of the optimizer.
std::vector<at::Tensor> OwnStateOf(std::span<const ShardedUnit> units, Optimizer& optimizer);
// `shards`: as for ExchangeForAverages(); nullptr: returns nothing.
std::vector<at::Tensor> OwnStateOf(ShardedUpdate* shards, Optimizer& optimizer);
// If `shards` is not nullptr, gives all ranks all parameters, after this rank's pieces were set. A
// collective.
void Share(ShardedUpdate* shards);

// Begins a section of the state of a model that the ranks of the tensor and pipeline axes divide.
// `own` is the argument of StateVisitor::Section, among the ranks of the data axis.
void BeginSection(const char* prefix,
                  std::optional<RankPart> own,
                  const Mesh& mesh,
                  StateVisitor& visitor);
// Names a model's parameters and buffers. `parameters` and `buffers` are the `own` of BeginSection
// for each.
void NameModel(const Model& model,
               std::optional<RankPart> parameters,
               std::optional<RankPart> buffers,
               const Mesh& mesh,
               StateVisitor& visitor);

// Returns the report of the bucket sizes that the first `step` steps have tried.
BucketSizesReport BucketSizesOf(const BucketTuning& tuning, int64_t step);

}  // namespace ddprun::trainer
