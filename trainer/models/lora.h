// LoRA as in peft: the model's own weights are frozen, and each chosen linear layer gets two narrow
// matrices that are trained. Their product can be added to the layer's weight at the end.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::trainer {

class Model;

struct LoraOptions {
  int64_t r = 0;  // the narrow size of the matrices; 0: no LoRA
  double alpha = 8;
  double dropout = 0;
  bool use_rslora = false;
  // Names of linear layers, or the ends of names, or "all-linear".
  std::vector<std::string> target_modules = {};

  // The factor of the product of the matrices.
  double scaling() const;
  bool operator==(const LoraOptions&) const = default;
};

// Returns peft's default target_modules for a type of model ("gpt", "llama", "bert"); else {}.
std::vector<std::string> LoraTargets(std::string_view type);

// Adds matrices to the chosen layers and freezes all parameters that IsOfAdapter() does not name.
// Does nothing if options.r is 0. Throws Failure for a name that no layer has.
void AddLora(Model& model, const LoraOptions& options);

// Draws the matrices from torch's default generator: the same bits as peft's, if torch.manual_seed
// comes right before get_peft_model.
void InitializeLora(Model& model);

// Returns whether a parameter is one of the matrices.
bool IsLora(std::string_view parameter);
// Returns whether it is trained and stored with the matrices: they are, and a head of classes.
bool IsOfAdapter(std::string_view parameter);
bool HasLora(const Model& model);
// Returns the number of elements of the parameters that are trained.
int64_t TrainedCount(const Model& model);
// Returns a name with "*" for each digit: one name for the equal parts of all layers.
std::string StarDigits(std::string name);

// Returns a tensor of a model by its name.
using ReadTensor = std::function<at::Tensor(const std::string& name)>;
// Returns a parameter or buffer, with the product of its layer's matrices added. `model` may be a
// shape.
at::Tensor MergedWeight(const Model& model, const std::string& name, const ReadTensor& read);

}  // namespace ddprun::trainer
