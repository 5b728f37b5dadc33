#include "trainer/models/registry.h"

#include "trainer/models/plugin_model.h"

namespace ddprun::trainer {

namespace {

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
    return LoadTorchScript(options.path, loss);
  }
  std::shared_ptr<Model> operator()(const PluginOptions& options) const {
    return MakePluginModel(LoadPlugin(options.path), {.json = options.json, .data = options.data});
  }

  const LossOptions& loss;
};

}  // namespace

std::string TypeOf(const ModelOptions& options) {
  return std::visit([](const auto& one) { return one.kType; }, options);
}

std::shared_ptr<Model> MakeModel(const ModelOptions& options,
                                 const LossOptions& loss,
                                 bool initialize) {
  std::shared_ptr<Model> model = std::visit(Builder{loss}, options);
  model->SetLoss(loss);
  if (initialize) model->Initialize();
  return model;
}

std::shared_ptr<const Model> MakeModelShape(const ModelOptions& options) {
  if (std::holds_alternative<PluginOptions>(options) ||
      std::holds_alternative<TorchScriptOptions>(options)) {
    return nullptr;
  }
  const ShapesOnly scope;
  try {
    std::shared_ptr<const Model> model = MakeModel(options, {}, /*initialize=*/false);
    double bytes = 0;
    for (const auto& tensor : model->State()) bytes += static_cast<double>(tensor->nbytes());
    if (bytes < 1e18) return model;
  } catch (const c10::Error&) {  // the bytes of one tensor overflow
  }
  ThrowWrongSize(TypeOf(options), "sizes of which no machine could hold the weights");
}

}  // namespace ddprun::trainer
