#include "trainer/models/plugin_model.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/compute/precision.h"
#include "trainer/plugin/load_plugin.h"

namespace ddprun::trainer {

namespace {

// Returns a description such as "Float [8, 16]".
std::string DescribeOrUndefined(const at::Tensor& tensor) {
  return tensor.defined() ? c10::str(tensor.scalar_type(), " ", tensor.sizes()) : "undefined";
}

std::string OnBatch(const char* what, const Batch& batch) {
  return std::string(what) + " of a batch with inputs " + DescribeOrUndefined(batch.inputs) +
         " and targets " + DescribeOrUndefined(batch.targets);
}

// The keys that are not metrics: of a line of metrics.jsonl, and of what report.on_event gets.
constexpr std::array<std::string_view, 12> kTakenNames = {
    "ts",    "time", "step",   "epoch",   "split",   "loss",
    "event", "run",  "folder", "samples", "seconds", "confusion_matrix"};

std::string ProblemOf(std::span<const std::string> names, size_t i) {
  const auto before = names.subspan(0, i);
  const bool visible =
      std::ranges::all_of(names[i], [](unsigned char c) { return c > ' ' && c != 0x7f; });
  if (names[i].empty() || !visible) return "a name without spaces was expected";
  if (std::ranges::find(kTakenNames, names[i]) != kTakenNames.end()) {
    return "metrics.jsonl or report.on_event has another value of this name";
  }
  return std::ranges::find(before, names[i]) != before.end() ? "another has this name" : "";
}

class HostedModel final : public Model, private OwnMetrics {
 public:
  HostedModel(const Plugin& plugin, const PluginModelOptions& options, c10::Device device)
      : path_(plugin.path()),
        json_(options.json),
        device_(device),
        module_(plugin.MakeModel(options)) {
    if (!device.is_cpu()) module_->to(device);
    CallPlugin(
        path_, [] { return "listing the parameters"; }, [this] { AdoptTensors(); });
    metric_names_ = CallPlugin(
        path_, [] { return "asking for the metrics' names"; },
        [this] { return module_->MetricNames(); });
    for (size_t i = 0; i < metric_names_.size(); ++i) {
      const std::string problem = ProblemOf(metric_names_, i);
      if (problem.empty()) continue;
      throw PluginError(path_, "The metric \"" + metric_names_[i] + "\": " + problem + ".");
    }
  }

  void train(bool on = true) override {
    Model::train(on);
    CallPlugin(
        path_, [] { return "switching between training and evaluation"; },
        [&] { module_->train(on); });
  }

  at::Tensor Outputs(const Batch& batch) override {
    const AutocastScope autocast(device_.type());
    const at::Tensor outputs = CallPlugin(
        path_, [&] { return OnBatch("computing the outputs", batch); },
        [&] { return module_->Outputs(batch); });
    if (!outputs.defined()) throw PluginError(path_, "Outputs() returned an undefined tensor.");
    return outputs;
  }

  at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) override {
    const AutocastScope autocast(device_.type());
    return CheckLoss(CallPlugin(
        path_, [&] { return OnBatch("computing the loss", batch); },
        [&] { return module_->LossFrom(outputs, batch); }));
  }

  at::Tensor Loss(const Batch& batch) override {
    const AutocastScope autocast(device_.type());
    return CheckLoss(CallPlugin(
        path_, [&] { return OnBatch("computing the loss", batch); },
        [&] { return module_->Loss(batch); }));
  }

  OwnMetrics* own_metrics() override { return metric_names_.empty() ? nullptr : this; }

  std::string ConfigJson() const override {
    const nlohmann::ordered_json config = {
        {"model_type", "plugin"},
        {"plugin", std::filesystem::path(path_).filename().string()},
        {"options", nlohmann::ordered_json::parse(json_)}};
    return config.dump(2) + "\n";
  }

 private:
  std::vector<std::string> MetricNames() const override { return metric_names_; }

  std::vector<MetricSum> SumMetrics(const at::Tensor& outputs, const Batch& batch) override {
    const AutocastScope autocast(device_.type());
    auto sums = CallPlugin(
        path_, [&] { return OnBatch("adding up the metrics", batch); },
        [&] { return module_->SumMetrics(outputs, batch); });
    if (metric_sums_ < 0) metric_sums_ = static_cast<int64_t>(sums.size());
    if (std::ssize(sums) == metric_sums_) return sums;
    throw PluginError(path_, "SumMetrics() gave " + std::to_string(sums.size()) +
                                 " sums for a batch and " + std::to_string(metric_sums_) +
                                 " for the first; equally many were expected.");
  }

  std::vector<double> MetricValues(const std::vector<MetricSum>& totals) const override {
    auto values = CallPlugin(
        path_, [] { return "computing the metrics' values"; },
        [&] { return module_->MetricValues(totals); });
    if (values.size() == metric_names_.size()) return values;
    throw PluginError(path_, "MetricValues() made " + std::to_string(values.size()) +
                                 " values of " + std::to_string(totals.size()) +
                                 " sums; MetricNames() has " +
                                 std::to_string(metric_names_.size()) + " names.");
  }

  void AdoptTensors() {
    bool any_trained = false;
    for (const auto& parameter : module_->named_parameters()) {
      const at::Tensor& value = parameter.value();
      if (!value.is_floating_point()) {
        throw PluginError(path_, "The parameter " + parameter.key() + " is " +
                                     DescribeOrUndefined(value) +
                                     "; floating point numbers were expected.");
      }
      AdoptParameter(parameter.key(), value);
      any_trained = any_trained || value.requires_grad();
    }
    if (!any_trained) {
      throw PluginError(path_,
                        "The plugin's model has no parameter to train: register_parameter and "
                        "register_module make them known, requires_grad has them trained.");
    }
    for (const auto& buffer : module_->named_buffers()) AddBuffer(buffer.key(), buffer.value());
  }

  at::Tensor CheckLoss(at::Tensor loss) const {
    if (!loss.defined() || loss.dim() != 0 || !loss.is_floating_point()) {
      throw PluginError(path_, "The loss is " + DescribeOrUndefined(loss) +
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
  const c10::Device device_;
  const std::shared_ptr<PluginModel> module_;
  std::vector<std::string> metric_names_;
  int64_t metric_sums_ = -1;  // number of a batch's sums; -1: unknown
};

}  // namespace

std::shared_ptr<Model> MakePluginModel(const Plugin& plugin,
                                       const PluginModelOptions& options,
                                       c10::Device device) {
  return std::make_shared<HostedModel>(plugin, options, device);
}

}  // namespace ddprun::trainer
