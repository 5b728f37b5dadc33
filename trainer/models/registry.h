// From a model's options to the model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>

#include "trainer/models/bert.h"
#include "trainer/models/cnn.h"
#include "trainer/models/gpt.h"
#include "trainer/models/llama.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet.h"
#include "trainer/models/torchscript.h"

namespace ddprun::trainer {

struct PluginOptions {
  static constexpr const char* kType = "plugin";

  std::string path = {};    // the shared object
  std::string json = "{}";  // options for its code
  DataShape data = {};      // of what it is trained on

  bool operator==(const PluginOptions&) const = default;
};

// One of them says which model, and its sizes.
using ModelOptions = std::variant<MlpOptions,
                                  CnnOptions,
                                  ResNetOptions,
                                  GptOptions,
                                  LlamaOptions,
                                  BertOptions,
                                  TorchScriptOptions,
                                  PluginOptions>;

// "gpt": kType of the options.
std::string TypeOf(const ModelOptions& options);

// What a transformer shares with the others; nullptr for other models. `Options`: ModelOptions,
// maybe const.
template <typename Options>
auto* TransformerIn(Options& options) {
  using Found =
      std::conditional_t<std::is_const_v<Options>, const TransformerOptions, TransformerOptions>;
  return std::visit(
      [](auto& one) -> Found* {
        constexpr bool kIs = std::is_convertible_v<decltype(&one), Found*>;
        if constexpr (kIs) return &one;
        return nullptr;
      },
      options);
}

// While it lives, this thread's models make their parameters and buffers on the device; without one
// on the CPU. On at::kMeta they have names and shapes but no memory: enough to count them and to
// compare them with a file. Not nested.
class ParametersOn {
 public:
  // `name`: of the parameter or buffer.
  using Place = std::function<c10::Device(const std::string& name)>;
  explicit ParametersOn(c10::Device device)
      : ParametersOn([device](const std::string&) { return device; }) {}
  explicit ParametersOn(Place place);
  ~ParametersOn();
  // For this thread now.
  static c10::Device PlaceOf(const std::string& name);
  ParametersOn(const ParametersOn&) = delete;
  ParametersOn& operator=(const ParametersOn&) = delete;
};

// Throws Failure for sizes that do not fit. `initialize` false: weights are left uninitialised, for
// ranks that receive them by broadcast or file. Weights are drawn on the CPU for any device.
std::shared_ptr<Model> MakeModel(const ModelOptions& options,
                                 const LossOptions& loss = {},
                                 bool initialize = true,
                                 c10::Device device = at::kCPU);
// The same with each parameter and buffer where `place` says, weights not initialised.
// REQUIRES: a built-in model.
std::shared_ptr<Model> MakeModelParts(const ModelOptions& options,
                                      const LossOptions& loss,
                                      const ParametersOn::Place& place);

// The same with names and shapes alone, in no time and memory; nullptr where only its own code or
// file knows them (plugin, torchscript). Throws Failure too for more than can be counted.
std::shared_ptr<const Model> MakeModelShape(const ModelOptions& options);

}  // namespace ddprun::trainer
