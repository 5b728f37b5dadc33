#include "trainer/models/plugin_model.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>

#include <filesystem>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "trainer/plugin/call_plugin.h"

namespace ddprun::trainer {

namespace {

// "Float [8, 16]".
std::string Describe(const at::Tensor& tensor) {
  return tensor.defined() ? c10::str(tensor.scalar_type(), " ", tensor.sizes()) : "undefined";
}

std::string OnBatch(const char* what, const Batch& batch) {
  return std::string(what) + " of a batch with inputs " + Describe(batch.inputs) + " and targets " +
         Describe(batch.targets);
}

class HostedModel final : public Model {
 public:
  HostedModel(const Plugin& plugin, const PluginModelOptions& options)
      : path_(plugin.path()), json_(options.json), module_(plugin.MakeModel(options)) {
    CallPlugin(
        path_, [] { return "listing the parameters"; }, [this] { AdoptTensors(); });
  }

  void train(bool on = true) override {
    Model::train(on);
    CallPlugin(
        path_, [] { return "switching between training and evaluation"; },
        [&] { module_->train(on); });
  }

  at::Tensor Outputs(const Batch& batch) override {
    const at::Tensor outputs = CallPlugin(
        path_, [&] { return OnBatch("computing the outputs", batch); },
        [&] { return module_->Outputs(batch); });
    if (!outputs.defined()) throw PluginError(path_, "Outputs() returned an undefined tensor.");
    return outputs;
  }

  at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) override {
    return Checked(CallPlugin(
        path_, [&] { return OnBatch("computing the loss", batch); },
        [&] { return module_->LossFrom(outputs, batch); }));
  }

  at::Tensor Loss(const Batch& batch) override {
    return Checked(CallPlugin(
        path_, [&] { return OnBatch("computing the loss", batch); },
        [&] { return module_->Loss(batch); }));
  }

  std::string ConfigJson() const override {
    const nlohmann::ordered_json config = {
        {"model_type", "plugin"},
        {"plugin", std::filesystem::path(path_).filename().string()},
        {"options", nlohmann::ordered_json::parse(json_)}};
    return config.dump(2) + "\n";
  }

 private:
  // A tensor that two names share is trained once, under the first, as PyTorch's parameters() have
  // it.
  void AdoptTensors() {
    std::set<const void*> seen;
    bool any_trained = false;
    for (const auto& parameter : module_->named_parameters()) {
      const at::Tensor& value = parameter.value();
      if (!value.is_floating_point()) {
        throw PluginError(path_, "The parameter " + parameter.key() + " is " + Describe(value) +
                                     "; floating point numbers were expected.");
      }
      if (!seen.insert(value.unsafeGetTensorImpl()).second) continue;
      AdoptParameter(parameter.key(), value);
      any_trained = any_trained || value.requires_grad();
    }
    if (!any_trained) {
      throw PluginError(path_,
                        "The plugin's model has no parameter to train: register_parameter and "
                        "register_module make them known.");
    }
    for (const auto& buffer : module_->named_buffers()) AddBuffer(buffer.key(), buffer.value());
  }

  at::Tensor Checked(at::Tensor loss) const {
    if (!loss.defined() || loss.dim() != 0 || !loss.is_floating_point()) {
      throw PluginError(path_, "The loss is " + Describe(loss) +
                                   "; a floating point scalar, without dimensions, was expected.");
    }
    if (at::GradMode::is_enabled() && !loss.requires_grad()) {
      throw PluginError(path_,
                        "The loss does not depend on any parameter: it has no graph. A detach(), "
                        "item() or NoGradGuard cuts it off.");
    }
    return loss;
  }

  const std::string path_;
  const std::string json_;
  const std::shared_ptr<PluginModel> module_;
};

}  // namespace

std::shared_ptr<Model> MakePluginModel(const Plugin& plugin, const PluginModelOptions& options) {
  return std::make_shared<HostedModel>(plugin, options);
}

}  // namespace ddprun::trainer
