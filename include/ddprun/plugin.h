// A plugin: a shared object with your own model, data set, observer of runs, or all of them, which
// ddp-trainer loads. See docs/plugins.md and examples/plugin.
//
//   class Net final : public ddprun::PluginModel { ... };
//   DDPRUN_PLUGIN(.model = ddprun::NewModel<Net>)
//
// If a function of a model or data set throws, the run ends with a message that contains the
// exception's text.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ddprun/dataset.h>
#include <ddprun/plugin_descriptor.h>
#include <ddprun/run_observer.h>

namespace ddprun {

// The facts from which a plugin makes its model.
struct PluginModelOptions {
  std::string json = "{}";  // the object model.options of the config, as JSON text
  DataShape data = {};      // the sizes of the training data, as far as its format says
};

// The facts with which a plugin opens its data set.
struct PluginDataOptions {
  std::string json = "{}";  // the object data.options of the config, as JSON text
  // The files of data.train_files, or others: absolute paths, globs expanded.
  std::vector<std::string> files = {};
  bool validation = false;  // true: they are validation files, test files or those of `evaluate`
  uint64_t seed = 0;        // data.data_seed
};

// A module with its loss, and with metrics if it has any. Register parameters and buffers as in any
// torch::nn::Module; they keep their names in the weights file.
//
// Every rank makes one, in its own process, and calls it from one thread. When it is made, torch's
// default generator has run.seed on all ranks; rank 0's weights are then copied to the others.
// Parameters are floating point on the CPU and must not be replaced: after load_state or to()
// outside the constructor, the optimizer would have the old ones. Change buffers in place.
class PluginModel : public torch::nn::Module, public OwnMetrics {
 public:
  // Returns the predictions for the batch. If evaluation.metrics are computed from them: numbers
  // [B, ...], or scores [B, classes] or [B, L, classes].
  virtual at::Tensor Outputs(const Batch& batch) = 0;

  // Returns the mean loss of `outputs` over batch.predictions, weighted if batch.weights are
  // defined: a scalar, with a graph while gradients are on. It depends on every parameter, unless
  // strategy.find_unused_parameters is set.
  virtual at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) = 0;

  // Called instead of the two methods above if the outputs are not needed.
  virtual at::Tensor Loss(const Batch& batch) { return LossFrom(Outputs(batch), batch); }
};

// A plugin's data set is a Dataset (dataset.h). Each node opens it once, before the
// ranks are forked, so its constructor must leave no thread running. Later, several threads call
// its const methods at once.
//
// In a batch, `samples` 0 means as many samples as requested; if `predictions` is 0 as well, the
// batch has one prediction for each sample. If its samples have weights, equal_predictions() must
// return false; sum_of_weights 0 means their sum.

// The entries of a plugin; nullptr: it does not have this one.
struct PluginEntries {
  std::shared_ptr<PluginModel> (*model)(const PluginModelOptions& options) = nullptr;
  std::unique_ptr<Dataset> (*dataset)(const PluginDataOptions& options) = nullptr;
  std::unique_ptr<RunObserver> (*observer)(const PluginObserverOptions& options) = nullptr;
};

// Makes a T from the options, for PluginEntries::model.
template <typename T>
std::shared_ptr<PluginModel> NewModel(const PluginModelOptions& options) {
  return std::make_shared<T>(options);
}

// Makes a T from the options, for PluginEntries::dataset.
template <typename T>
std::unique_ptr<Dataset> NewDataset(const PluginDataOptions& options) {
  return std::make_unique<T>(options);
}

// Makes a T from the options, for PluginEntries::observer.
template <typename T>
std::unique_ptr<RunObserver> NewObserver(const PluginObserverOptions& options) {
  return std::make_unique<T>(options);
}

}  // namespace ddprun

// Defines the plugin's entries. Use it once in a plugin, outside any namespace. The arguments
// initialize a PluginEntries.
#define DDPRUN_PLUGIN(...)                                                                       \
  extern "C" {                                                                                   \
  [[gnu::visibility("default")]] extern const ddprun::PluginDescriptor ddprun_plugin_descriptor; \
  [[gnu::visibility("default")]] extern const ddprun::PluginEntries ddprun_plugin_entries;       \
  }                                                                                              \
  constexpr ddprun::PluginDescriptor ddprun_plugin_descriptor =                                  \
      ddprun::DescribeBuild(DDPRUN_VERSION);                                                     \
  constexpr ddprun::PluginEntries ddprun_plugin_entries = {__VA_ARGS__};
