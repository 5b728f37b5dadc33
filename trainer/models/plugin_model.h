// A plugin's model (trainer/plugin/plugin.h) as a Model.
#pragma once

#include <memory>

#include "trainer/models/model.h"
#include "trainer/plugin/load_plugin.h"

namespace ddprun::trainer {

// Makes the model, which draws weights from torch's default generator if the plugin does. Throws
// Failure. The model's methods also throw it if the plugin's code throws or returns a wrong loss.
std::shared_ptr<Model> MakePluginModel(const Plugin& plugin,
                                       const PluginModelOptions& options,
                                       c10::Device device = at::kCPU);

}  // namespace ddprun::trainer
