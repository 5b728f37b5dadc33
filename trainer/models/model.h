// What the loop asks of a model. A model never knows how it is parallelized.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/dataset.h"
#include "trainer/data/own_metrics.h"
#include "trainer/models/layer_parameters.h"
#include "trainer/models/loss.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// A part of a forward pass: an embedding, a block, a head. Its input is the output of the stage
// before it; the first stage's input is the batch's inputs.
struct Stage {
  std::vector<std::string> modules;  // that hold its parameters: {"transformer.h.0"}
  std::function<at::Tensor(const at::Tensor& x)> forward;  // also later, until backward is over
  bool is_block = false;                                   // one of those that a model repeats

  // Whether the parameter or buffer of that name is in its modules.
  bool Holds(const std::string& name) const;
};

// Does stage.forward(x), and what belongs before and after it.
using StageHook = std::function<at::Tensor(const Stage& stage, const at::Tensor& x)>;

// One thread at a time, as every torch::nn::Module.
class Model : public torch::nn::Module {
 public:
  Model();
  // The parts that make the outputs for this batch, in order. Empty: this model has one code for
  // all, and overrides Outputs.
  virtual std::vector<Stage> Stages(const Batch& /*batch*/) const { return {}; }
  std::vector<at::Tensor> ParametersOf(const Stage& stage) const;
  // From now on every stage runs through the hook. It does not outlive the model.
  void SetStageHook(StageHook hook) { stage_hook_ = std::move(hook); }
  // Returns the output of the stages [begin, end) of Stages(batch) for the input x.
  at::Tensor RunStages(const Batch& batch, size_t begin, size_t end, const at::Tensor& x) const;
  // Calls `call`, in which LossFrom, Outputs and Loss begin with stage `begin` and the tensor x,
  // the output of the stage before it. For a model that has only its last stages.
  at::Tensor RunFromStage(size_t begin,
                          const at::Tensor& x,
                          const std::function<at::Tensor()>& call);
  // Forgets the submodules that are on at::kMeta alone: others have them (ParametersOn).
  void DropMetaModules();
  const StageHook& stage_hook() const { return stage_hook_; }
  // Of models with a loss of their own, label_smoothing alone counts.
  void SetLoss(const LossOptions& loss) { loss_ = loss; }
  // Draws all weights from torch's default generator; before, they are left as they come. Models
  // that come with weights (plugins, TorchScript) keep those.
  virtual void Initialize();

  // What the model predicts for the batch: numbers [B, ...], or scores [B, classes] or
  // [B, L, vocab_size].
  virtual at::Tensor Outputs(const Batch& batch) { return Walk(Stages(batch), batch.inputs); }

  // The mean over batch.predictions of the loss of what Outputs gave, a scalar with a graph.
  virtual at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) {
    return LossOf(loss_, outputs, batch, is_training());
  }

  // LossFrom(Outputs(batch), batch), for models that can do it with less memory when nobody asks
  // for the outputs. Every parameter takes part.
  virtual at::Tensor Loss(const Batch& batch) { return LossFrom(Outputs(batch), batch); }

  // Metrics that only this model knows; nullptr: none. Lives as long as the model.
  virtual OwnMetrics* own_metrics() { return nullptr; }

  // Where this rank's part of a parameter lies in the whole; empty: nobody has a part.
  StatePlacement PlacementOf(const std::string& parameter) const;
  // Parameters, then buffers, by name: what a weights file holds.
  torch::OrderedDict<std::string, at::Tensor> State() const;

  // config.json of the folder that SavePretrained writes: Hugging Face's keys where they exist.
  virtual std::string ConfigJson() const = 0;

  // Writes what a folder with weights and config.json lacks to be used elsewhere. Throws Failure.
  virtual void SaveFiles(const std::string& /*folder*/) const {}

  // The parameter that a tensor of a weights file is meant for; nullopt when it is to be skipped,
  // e.g. a constant that other programs save along.
  virtual std::optional<std::string> ParameterFor(const std::string& stored_name) const {
    return stored_name;
  }

  // A weights file may lack the parameter, as the file of an encoder lacks a classifier's head:
  // InitializeParameter then draws it.
  virtual bool MayBeMissingInFile(const std::string& /*parameter*/) const { return false; }
  // Draws one parameter from torch's default generator. REQUIRES: MayBeMissingInFile, or the model
  // draws all of them so.
  virtual void InitializeParameter(const std::string& /*parameter*/, at::Tensor& /*value*/) const {}

 protected:
  // Returns the output of the last stage.
  at::Tensor Walk(std::span<const Stage> stages, at::Tensor x) const;
  // Makes a float32 parameter, not initialised, under a dotted name: "h.0.ln_1.weight"
  // makes the submodules h, 0 and ln_1 as needed. Order of calls = order of parameters(), as long
  // as the calls for one submodule follow each other.
  at::Tensor AddParameter(const std::string& dotted_name, at::IntArrayRef sizes);
  // The same for a parameter of which ranks that share out layers have ranges of a dimension, or,
  // of `fused` equal parts of it, a range of each.
  at::Tensor AddSplit(const std::string& name, at::IntArrayRef sizes, int64_t dim, int64_t fused);
  // Registers a tensor that is no parameter but is saved with them, as running means are.
  at::Tensor AddBuffer(const std::string& dotted_name, const at::Tensor& value);
  // Registers an existing tensor, trained if it requires a gradient, unless it has a name already.
  at::Tensor AdoptParameter(const std::string& dotted_name, const at::Tensor& value);
  // name.weight [out, in], or as the layout says, and name.bias [out].
  Affine AddLinear(const std::string& name, int64_t in, int64_t out, const LinearOptions& how = {});
  // name.weight [vocabulary, width], split by words.
  WordVectors AddWordVectors(const std::string& name, int64_t vocabulary, int64_t width);
  // name.weight and name.bias [width].
  Affine AddNorm(const std::string& name, int64_t width);

  // The ranks that have the other parts of the layers; nullptr if the layers are whole.
  const TensorAxis* axis() const { return axis_.get(); }
  // How many of `whole` heads, or of other outputs of a split layer, this rank has.
  int64_t OwnCount(int64_t whole) const;

  LossOptions loss_;

 private:
  const std::shared_ptr<const TensorAxis> axis_;
  std::map<std::string, StatePlacement> placements_;  // of split parameters
  StageHook stage_hook_ = [](const Stage& stage, const at::Tensor& x) { return stage.forward(x); };
  size_t first_stage_ = 0;
  at::Tensor first_input_;  // to the first stage; undefined: what Walk is called with
};

// Has the blocks of the model keep no more than what they take (compute/recompute.h).
// REQUIRES: it has stages.
void RecomputeBlocks(Model& model);

// Sum of elements over all parameters.
int64_t ParameterCount(const Model& model);
// Of all that a weights file holds.
int64_t StateBytes(const Model& model);
// Copies parameters and buffers by name to a model, or to one with parts of its layers.
void CopyState(const Model& from, Model& to);

}  // namespace ddprun::trainer
