#include "trainer/models/lora.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "base/check.h"
#include "base/failure.h"
#include "base/text.h"
#include "trainer/models/layers.h"
#include "trainer/models/model.h"
#include "trainer/models/registry.h"

namespace ddprun::trainer {

namespace {

constexpr std::string_view kAllLinear = "all-linear";
constexpr std::string_view kHead = "classifier";  // peft trains it as a whole

bool Matches(const std::string& name, std::string_view target) {
  if (name == kHead) return false;
  return target == kAllLinear || name == target || name.ends_with("." + std::string(target));
}

Failure NoSuchLayer(const Model& model, const std::string& target) {
  std::set<std::string> names;
  for (const LinearModule& linear : model.linear_modules()) {
    if (linear.name != kHead) names.insert(StarDigits(linear.name));
  }
  return Failure(Error{.code = Code::kUsage,
                       .title = "NO SUCH LAYER FOR LORA",
                       .where = "training.lora_target_modules",
                       .what = "No linear layer of this model has the name \"" + target +
                               "\", or a name that ends with it.",
                       .hint = "The layers are " + FormatList(names) +
                               ".\nThe end of a name is enough, or \"all-linear\" for all.",
                       .page = "no-such-layer-for-lora"});
}

// Registers a matrix as the parameter `name`.weight of the layer's module.
at::Tensor AddMatrix(Model& model,
                     const std::string& layer,
                     const std::string& name,
                     at::IntArrayRef sizes) {
  std::shared_ptr<torch::nn::Module> module = model.named_modules()[layer];
  const c10::Device place = ParametersOn::PlaceOf(layer + "." + name + ".weight");
  return module->register_module(name, std::make_shared<torch::nn::Module>())
      ->register_parameter("weight", at::empty(sizes, at::device(place)));
}

void AddMatrices(Model& model, const LinearModule& linear, const LoraOptions& options) {
  const Affine& layer = linear.layer;
  DDPRUN_CHECK(layer.axis == nullptr);
  const bool out_in = layer.layout == WeightLayout::kOutIn;
  const int64_t in = layer.weight.size(out_in ? 1 : 0);
  const int64_t out = layer.weight.size(out_in ? 0 : 1);
  *layer.lora = {.a = AddMatrix(model, linear.name, "lora_A", {options.r, in}),
                 .b = AddMatrix(model, linear.name, "lora_B", {out, options.r}),
                 .scaling = options.scaling(),
                 .dropout = options.dropout,
                 .model = &model};
}

}  // namespace

double LoraOptions::scaling() const {
  const auto rank = static_cast<double>(r);
  return alpha / (use_rslora ? std::sqrt(rank) : rank);
}

std::vector<std::string> LoraTargets(std::string_view type) {
  if (type == "gpt") return {"c_attn"};
  if (type == "llama") return {"q_proj", "v_proj"};
  if (type == "bert") return {"query", "value"};
  return {};
}

void AddLora(Model& model, const LoraOptions& options) {
  if (options.r == 0) return;
  std::set<std::string> unused(options.target_modules.begin(), options.target_modules.end());
  for (at::Tensor& parameter : model.parameters()) parameter.set_requires_grad(false);
  for (const LinearModule& linear : model.linear_modules()) {
    bool matches = false;
    for (const std::string& target : options.target_modules) {
      if (!Matches(linear.name, target)) continue;
      unused.erase(target);
      matches = true;
    }
    if (matches) AddMatrices(model, linear, options);
  }
  if (!unused.empty()) throw NoSuchLayer(model, *unused.begin());
  for (auto& item : model.named_parameters()) {
    if (IsOfAdapter(item.key())) item.value().set_requires_grad(true);
  }
}

void InitializeLora(Model& model) {
  const at::NoGradGuard no_grad;
  for (const LinearModule& linear : model.linear_modules()) {
    LoraMatrices& lora = *linear.layer.lora;
    if (!lora.a.defined()) continue;
    at::Tensor a = at::empty_like(lora.a, at::kCPU);
    at::Tensor b = at::empty_like(lora.b, at::kCPU);
    at::Tensor no_bias;
    // peft makes a torch.nn.Linear of each, and then draws A again.
    for (at::Tensor* drawn : {&a, &b, &a}) InitializeAsTorch(*drawn, no_bias);
    lora.a.copy_(a);
    lora.b.zero_();
  }
}

bool IsLora(std::string_view parameter) {
  return parameter.ends_with(".lora_A.weight") || parameter.ends_with(".lora_B.weight");
}

bool IsOfAdapter(std::string_view parameter) {
  return IsLora(parameter) || parameter.starts_with(std::string(kHead) + ".");
}

bool HasLora(const Model& model) {
  return std::ranges::any_of(model.linear_modules(), [](const LinearModule& linear) {
    return linear.layer.lora->a.defined();
  });
}

int64_t TrainedCount(const Model& model) {
  int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) count += parameter.numel();
  }
  return count;
}

std::string StarDigits(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return c >= '0' && c <= '9'; }, '*');
  return name;
}

at::Tensor MergedWeight(const Model& model, const std::string& name, const ReadTensor& read) {
  const at::NoGradGuard no_grad;
  for (const auto& [layer_name, layer] : model.linear_modules()) {
    if (!layer.lora->a.defined() || name != layer_name + ".weight") continue;
    const at::Tensor product = at::matmul(read(layer_name + ".lora_B.weight").cpu(),
                                          read(layer_name + ".lora_A.weight").cpu());
    const bool out_in = layer.layout == WeightLayout::kOutIn;
    return read(name).cpu() + (out_in ? product : product.t()) * layer.lora->scaling;
  }
  return read(name);
}

}  // namespace ddprun::trainer
