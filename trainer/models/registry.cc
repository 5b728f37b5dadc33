#include "trainer/models/registry.h"

#include "trainer/models/plugin_model.h"

namespace ddprun::trainer {

namespace {

thread_local ParametersOn::Place place_of_parameters;

struct Builder {
  std::shared_ptr<Model> operator()(const MlpOptions& options) const { return MakeMlp(options); }
  std::shared_ptr<Model> operator()(const CnnOptions& options) const { return MakeCnn(options); }
  std::shared_ptr<Model> operator()(const ResNetOptions& options) const {
    return MakeResNet(options);
  }
  std::shared_ptr<Model> operator()(const GptOptions& options) const { return MakeGpt(options); }
  std::shared_ptr<Model> operator()(const LlamaOptions& options) const {
    return MakeLlama(options);
  }
  std::shared_ptr<Model> operator()(const BertOptions& options) const { return MakeBert(options); }
  std::shared_ptr<Model> operator()(const TorchScriptOptions& options) const {
    return LoadTorchScript(options.path, loss, device);
  }
  std::shared_ptr<Model> operator()(const PluginOptions& options) const {
    return MakePluginModel(LoadPlugin(options.path), {.json = options.json, .data = options.data},
                           device);
  }

  const LossOptions& loss;
  const c10::Device device;
};

// Makes a model whose parameters are where ParametersOn says, without initializing them.
std::shared_ptr<Model> Build(const ModelOptions& options,
                             const LossOptions& loss,
                             c10::Device device) {
  const std::shared_ptr<Model> model = std::visit(Builder{loss, device}, options);
  model->SetLoss(loss);
  if (const auto* transformer = TransformerIn(options)) AddLora(*model, transformer->lora);
  return model;
}

// Returns whether only the model's own code or file knows its parameters.
bool IsOfUser(const ModelOptions& options) {
  return std::holds_alternative<PluginOptions>(options) ||
         std::holds_alternative<TorchScriptOptions>(options);
}

}  // namespace

ParametersOn::ParametersOn(Place place) {
  place_of_parameters = std::move(place);
}

ParametersOn::~ParametersOn() {
  place_of_parameters = nullptr;
}

c10::Device ParametersOn::PlaceOf(const std::string& name) {
  return place_of_parameters ? place_of_parameters(name) : at::kCPU;
}

std::string TypeOf(const ModelOptions& options) {
  return std::visit([](const auto& one) { return one.kType; }, options);
}

TiedHead TiedHeadOf(std::string_view type) {
  TiedHead found;
  const auto look = [&]<typename Options>(const Options*) {
    if constexpr (requires { Options::kTiedHead; }) {
      if (type == Options::kType) found = Options::kTiedHead;
    }
  };
  [&]<typename... Options>(const std::variant<Options...>*) {
    (look(static_cast<const Options*>(nullptr)), ...);
  }(static_cast<const ModelOptions*>(nullptr));
  return found;
}

std::shared_ptr<Model> MakeModel(const ModelOptions& options,
                                 const LossOptions& loss,
                                 bool initialize,
                                 c10::Device device) {
  std::shared_ptr<Model> model;
  {
    const ParametersOn scope(device);
    model = Build(options, loss, device);
  }
  if (!initialize || IsOfUser(options)) return model;
  if (device.is_cpu()) {
    model->Initialize();
  } else {
    // Initializes on the CPU and copies, so that all devices get equal numbers.
    CopyState(*MakeModel(options, loss), *model);
  }
  return model;
}

std::shared_ptr<Model> MakeModelParts(const ModelOptions& options,
                                      const LossOptions& loss,
                                      const ParametersOn::Place& place) {
  const ParametersOn scope(place);
  return Build(options, loss, at::kCPU);
}

std::shared_ptr<const Model> MakeModelShape(const ModelOptions& options) {
  if (IsOfUser(options)) return nullptr;
  try {
    std::shared_ptr<const Model> model = MakeModel(options, {}, /*initialize=*/false, at::kMeta);
    double bytes = 0;
    for (const auto& tensor : model->State()) bytes += static_cast<double>(tensor->nbytes());
    if (bytes < 1e18) return model;
  } catch (const c10::Error&) {  // the bytes of one tensor overflow
  }
  ThrowWrongSize(TypeOf(options), "sizes that make its weights too large for any machine");
}

}  // namespace ddprun::trainer
