// The training loop's interface to a model, which does not know how it is parallelized.
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

#include <ddprun/dataset.h>
#include "trainer/data/dataset.h"
#include "trainer/models/layer_parameters.h"
#include "trainer/models/loss.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// A part of a forward pass: an embedding, a block, a head. Its input is the output of the stage
// before it; the first stage's input is the batch's inputs.
struct Stage {
  std::vector<std::string> modules;                        // of its parameters: {"transformer.h.0"}
  std::function<at::Tensor(const at::Tensor& x)> forward;  // callable until backward ends
  bool is_block = false;                                   // one of the repeated blocks

  // Returns whether the parameter or buffer `name` belongs to one of `modules`.
  bool Holds(const std::string& name) const;
};

// Runs stage.forward(x), with additional work before and after it.
using StageHook = std::function<at::Tensor(const Stage& stage, const at::Tensor& x)>;

// One thread at a time may use a model, like every torch::nn::Module.
class Model : public torch::nn::Module {
 public:
  Model();
  // Returns the parts that make the outputs for this batch, in order. Empty: the model overrides
  // Outputs() instead.
  virtual std::vector<Stage> Stages(const Batch& /*batch*/) const { return {}; }
  std::vector<at::Tensor> ParametersOf(const Stage& stage) const;
  // Runs every later stage through the hook.
  void SetStageHook(StageHook hook);
  // Returns the output of the stages [begin, end) of Stages(batch) for the input x.
  at::Tensor RunStages(const Batch& batch, size_t begin, size_t end, const at::Tensor& x) const;
  // Calls `call`, in which a model that has only its last stages begins at stage `begin` with x.
  at::Tensor RunFromStage(size_t begin,
                          const at::Tensor& x,
                          const std::function<at::Tensor()>& call);
  // Removes submodules that are only on at::kMeta, because other ranks hold them (ParametersOn).
  void DropMetaModules();
  const StageHook& stage_hook() const { return stage_hook_; }
  // A model with its own loss uses only label_smoothing.
  void SetLoss(const LossOptions& loss) { loss_ = loss; }
  // Draws all weights from torch's default generator. Without this call they are uninitialized.
  // Models that come with weights (plugins, TorchScript) keep them.
  virtual void Initialize();

  // Returns predictions: numbers [B, ...], or scores [B, classes] or [B, L, vocab_size].
  virtual at::Tensor Outputs(const Batch& batch) { return Walk(Stages(batch), batch.inputs); }

  // Returns the mean loss of `outputs` over batch.predictions, a scalar with a graph.
  virtual at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) {
    return LossOf(loss_, outputs, batch, is_training());
  }

  // Returns LossFrom(Outputs(batch), batch), maybe with less memory, because the outputs are not
  // needed. It depends on every parameter.
  virtual at::Tensor Loss(const Batch& batch) { return LossFrom(Outputs(batch), batch); }

  // Returns the model's own metrics; nullptr means none. They live as long as the model.
  virtual OwnMetrics* own_metrics() { return nullptr; }

  const std::vector<LinearModule>& linear_modules() const { return linear_modules_; }

  // Returns the place of this rank's part of a parameter; empty if there is no tensor axis.
  StatePlacement PlacementOf(const std::string& parameter) const;
  // Returns the tensors of a weights file by name: parameters, then buffers.
  torch::OrderedDict<std::string, at::Tensor> State() const;

  // Returns config.json for SavePretrained(), with Hugging Face's keys if they exist.
  virtual std::string ConfigJson() const = 0;

  // Writes what other programs need besides weights and config.json. Throws Failure.
  virtual void SaveFiles(const std::string& /*folder*/) const {}

  // Returns the parameter for a tensor of a weights file; nullopt: skip it, such as a constant.
  virtual std::optional<std::string> ParameterFor(const std::string& stored_name) const {
    return stored_name;
  }

  // Returns whether a weights file may lack the parameter, such as a classifier's head in the file
  // of an encoder. InitializeParameter() then draws it.
  virtual bool MayBeMissingInFile(const std::string& /*parameter*/) const { return false; }
  // Draws one parameter from torch's default generator. REQUIRES: MayBeMissingInFile(parameter), or
  // a model that draws all its parameters with this method.
  virtual void InitializeParameter(const std::string& /*parameter*/, at::Tensor& /*value*/) const {}

 protected:
  // Returns the output of the last stage.
  at::Tensor Walk(std::span<const Stage> stages, at::Tensor x) const;
  // Registers an uninitialized float32 parameter; "h.0.ln_1.weight" makes missing submodules h, 0
  // and ln_1. parameters() keeps the order of the calls if those for one submodule are consecutive.
  at::Tensor AddParameter(const std::string& dotted_name, at::IntArrayRef sizes);
  // Registers a parameter whose dimension `dim` tensor ranks split: each rank gets one range of
  // each of `fused` equal parts of the dimension.
  at::Tensor AddSplit(const std::string& name, at::IntArrayRef sizes, int64_t dim, int64_t fused);
  // Registers a tensor that is saved but is no parameter, such as running means.
  at::Tensor AddBuffer(const std::string& dotted_name, const at::Tensor& value);
  // Registers an existing tensor, unless the model has it. It is trained if it requires gradients.
  at::Tensor AdoptParameter(const std::string& dotted_name, const at::Tensor& value);
  // Adds name.weight, by default [out, in], and name.bias [out].
  Affine AddLinear(const std::string& name, int64_t in, int64_t out, const LinearOptions& how = {});
  // Adds name.weight [vocabulary, width], split by words.
  WordVectors AddWordVectors(const std::string& name, int64_t vocabulary, int64_t width);
  // Adds name.weight and name.bias [width].
  Affine AddNorm(const std::string& name, int64_t width);

  // Returns the tensor ranks that split the layers; nullptr means that the layers are whole.
  const TensorAxis* axis() const { return axis_.get(); }
  // Returns this rank's number of `whole` heads, or of other outputs of a split layer.
  int64_t OwnCount(int64_t whole) const;

  LossOptions loss_;

 private:
  const std::shared_ptr<const TensorAxis> axis_;
  std::map<std::string, StatePlacement> placements_;  // of split parameters
  std::vector<at::Tensor> products_;                  // weights and biases of linear layers
  std::vector<LinearModule> linear_modules_;
  bool has_hook_ = false;  // which may run a stage again or take its weights away
  StageHook stage_hook_ = [](const Stage& stage, const at::Tensor& x) { return stage.forward(x); };
  size_t first_stage_ = 0;
  at::Tensor first_input_;  // of the first stage; undefined: the argument of Walk()
};

// Keeps only the input of each block (compute/recompute.h). REQUIRES: a model with stages.
void RecomputeBlocks(Model& model);

// Returns the number of elements of all parameters.
int64_t ParameterCount(const Model& model);
// Returns the bytes of all tensors of State().
int64_t StateBytes(const Model& model);
// Copies parameters and buffers by name. `to` may have only a part of the layers.
void CopyState(const Model& from, Model& to);

}  // namespace ddprun::trainer
