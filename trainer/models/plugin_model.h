// A plugin's model (trainer/plugin/plugin.h) as one of ours.
#pragma once

#include <memory>

#include "trainer/models/model.h"
#include "trainer/plugin/load_plugin.h"

namespace ddprun::trainer {

// Draws weights from torch's default generator, if the plugin does. Throws Failure; so do the
// model's methods, where the plugin's code throws or its loss is none.
std::shared_ptr<Model> MakePluginModel(const Plugin& plugin,
                                       const PluginModelOptions& options,
                                       c10::Device device = at::kCPU);

}  // namespace ddprun::trainer
