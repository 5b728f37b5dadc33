// Makes models from their options.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
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
  DataShape data = {};      // of the training data

  bool operator==(const PluginOptions&) const = default;
};

// The options of one model: its type says which model, its values the sizes.
using ModelOptions = std::variant<MlpOptions,
                                  CnnOptions,
                                  ResNetOptions,
                                  GptOptions,
                                  LlamaOptions,
                                  BertOptions,
                                  TorchScriptOptions,
                                  PluginOptions>;

// Returns kType of the options, such as "gpt".
std::string TypeOf(const ModelOptions& options);

// Returns the tied head of models of this type (kType). Empty names mean that they never have one.
TiedHead TiedHeadOf(std::string_view type);

// Returns the options that all transformers share; nullptr for other models. `Options`:
// ModelOptions, maybe const.
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

// While it lives, this thread's models make their parameters and buffers on the device; without it
// on the CPU. On at::kMeta they have names and shapes but no memory, which is enough to count them
// and to compare them with a file. Not nested.
class ParametersOn {
 public:
  // `name`: of the parameter or buffer.
  using Place = std::function<c10::Device(const std::string& name)>;
  explicit ParametersOn(c10::Device device)
      : ParametersOn([device](const std::string&) { return device; }) {}
  explicit ParametersOn(Place place);
  ~ParametersOn();
  // Returns the device for `name` on this thread now.
  static c10::Device PlaceOf(const std::string& name);
  ParametersOn(const ParametersOn&) = delete;
  ParametersOn& operator=(const ParametersOn&) = delete;
};

// Makes a model. If `initialize` is false, leaves its weights to a broadcast or a file. Draws
// weights on the CPU for any device. Throws Failure for wrong sizes.
std::shared_ptr<Model> MakeModel(const ModelOptions& options,
                                 const LossOptions& loss = {},
                                 bool initialize = true,
                                 c10::Device device = at::kCPU);
// Makes a model with each parameter and buffer on the device that `place` returns, without
// initializing the weights. REQUIRES: a built-in model.
std::shared_ptr<Model> MakeModelParts(const ModelOptions& options,
                                      const LossOptions& loss,
                                      const ParametersOn::Place& place);

// Makes a model with only names and shapes, which takes no memory and little time. Returns nullptr
// if only the model's own code or file knows them (plugin, torchscript). Throws Failure for wrong
// sizes, and for more elements than can be counted.
std::shared_ptr<const Model> MakeModelShape(const ModelOptions& options);

}  // namespace ddprun::trainer
