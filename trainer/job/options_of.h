// From the config to the options of the parts that it describes. Pure.
#pragma once

#include <vector>

#include <ddprun/optimizer.h>
#include "trainer/config/config.h"
#include "trainer/data/loader.h"
#include "trainer/models/registry.h"
#include "trainer/optim/schedule.h"

namespace ddprun::trainer {

// Of a model without a folder to start from (open_parts.h).
ModelOptions ModelOptionsOf(const ModelConfig& config);
OptimizerOptions OptimizerOptionsOf(const OptimizerConfig& config);
ScheduleOptions ScheduleOptionsOf(const SchedulerConfig& config, int64_t total_steps);
std::vector<c10::Device> DevicesOf(const StrategyConfig& config);

// run.device, but where strategy.devices name the devices, what those are: "cuda" or "cpu".
std::string DeviceAskedFor(const Config& config);
std::vector<Metric> MetricsOf(const EvaluationConfig& config);

LoaderOptions TrainLoaderOptions(const Config& config, int64_t epoch);
LoaderOptions ValidationLoaderOptions(const Config& config);

}  // namespace ddprun::trainer
