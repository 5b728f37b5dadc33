// What a plugin is made of: a shared object with your own model, your own data set or both, which
// ddp-trainer loads. See docs/plugins.md and examples/plugin.
//
//   class Net final : public ddprun::trainer::PluginModel { ... };
//   DDPRUN_PLUGIN(.model = ddprun::trainer::NewModel<Net>)
//
// An exception that leaves any of these functions ends the run with a message that holds its text.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/data/dataset.h"
#include "trainer/data/own_metrics.h"
#include "trainer/plugin/descriptor.h"

namespace ddprun::trainer {

struct PluginModelOptions {
  std::string json = "{}";  // the object model.options of the config, as JSON text
  DataShape data = {};      // what the training data is like, as far as its format says
};

struct PluginDataOptions {
  std::string json = "{}";  // the object data.options of the config, as JSON text
  // Of data.train_files or data.validation_files: absolute paths, globs expanded.
  std::vector<std::string> files = {};
  bool validation = false;  // the data of data.validation_files is asked for
  uint64_t seed = 0;        // data.data_seed
};

// A module with its loss, and its metrics where it has some. Parameters and buffers are registered
// as with any torch::nn::Module; they keep their names in the weights file.
//
// Every rank makes one, in a process of its own, and calls it from one thread. When it is made,
// torch's default generator has run.seed on all ranks; rank 0's weights then go to the others.
// Parameters are floating point on the CPU and stay where they are: load_state or to() after the
// constructor would leave the optimizer with the old ones. Buffers are changed in place.
class PluginModel : public torch::nn::Module, public OwnMetrics {
 public:
  // What the model predicts for the batch. Where evaluation.metrics are computed from it: numbers
  // [B, ...], or scores [B, classes] or [B, L, classes].
  virtual at::Tensor Outputs(const Batch& batch) = 0;

  // The mean over batch.predictions of the loss of what Outputs gave: a scalar, with a graph while
  // gradients are on. Every parameter takes part, unless strategy.find_unused_parameters is true.
  virtual at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) = 0;

  // Called instead of the two above where nobody asks for the outputs.
  virtual at::Tensor Loss(const Batch& batch) { return LossFrom(Outputs(batch), batch); }
};

// A plugin's data set is a Dataset (trainer/data/dataset.h). It is opened once on each node, before
// the ranks are forked: its constructor must leave no thread running. After that all methods are
// const and are called by several threads at once. A batch that leaves `samples` 0 has as many
// samples as were asked for; one that leaves `predictions` 0 too has one for each sample.

// What a plugin offers; nullptr: nothing of the kind.
struct PluginEntries {
  std::shared_ptr<PluginModel> (*model)(const PluginModelOptions& options) = nullptr;
  std::unique_ptr<Dataset> (*dataset)(const PluginDataOptions& options) = nullptr;
};

template <typename T>
std::shared_ptr<PluginModel> NewModel(const PluginModelOptions& options) {
  return std::make_shared<T>(options);
}

template <typename T>
std::unique_ptr<Dataset> NewDataset(const PluginDataOptions& options) {
  return std::make_unique<T>(options);
}

}  // namespace ddprun::trainer

// Once in a plugin, outside of any namespace; the arguments initialise a PluginEntries.
#define DDPRUN_PLUGIN(...)                                                                  \
  extern "C" {                                                                              \
  [[gnu::visibility(                                                                        \
      "default")]] extern const ddprun::trainer::PluginDescriptor ddprun_plugin_descriptor; \
  [[gnu::visibility(                                                                        \
      "default")]] extern const ddprun::trainer::PluginEntries ddprun_plugin_entries;       \
  }                                                                                         \
  constexpr ddprun::trainer::PluginDescriptor ddprun_plugin_descriptor =                    \
      ddprun::trainer::DescribeBuild(DDPRUN_VERSION);                                       \
  constexpr ddprun::trainer::PluginEntries ddprun_plugin_entries = {__VA_ARGS__};
