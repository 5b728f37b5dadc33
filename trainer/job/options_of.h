// Makes the options of a job's parts from its config. Pure.
#pragma once

#include <vector>

#include <ddprun/optimizer.h>
#include "trainer/config/config.h"
#include "trainer/data/loader.h"
#include "trainer/job/step_plan.h"
#include "trainer/models/registry.h"
#include "trainer/optim/plateau.h"
#include "trainer/optim/schedule.h"

namespace ddprun::trainer {

// Returns the options of a model without a folder. See OpenModel().
ModelOptions ModelOptionsOf(const ModelConfig& config);
LoraOptions LoraOptionsOf(const Config& config);
OptimizerOptions OptimizerOptionsOf(const OptimizerConfig& config);
ScheduleOptions ScheduleOptionsOf(const Config& config, const StepPlan& plan);
PlateauOptions PlateauOptionsOf(const Config& config);
std::vector<c10::Device> DevicesOf(const StrategyConfig& config);

// Returns run.device, or if strategy.devices names devices, their type: "cuda" or "cpu".
std::string DeviceAskedFor(const Config& config);
std::vector<Metric> MetricsOf(const EvaluationConfig& config);
// Returns the metric that decides which state is the best, when the run ends early, and when the
// learning rate falls: "loss" or the name of a metric.
std::string DecidingMetric(const Config& config);

LoaderOptions TrainLoaderOptions(const Config& config, int64_t epoch);
LoaderOptions ValidationLoaderOptions(const Config& config);

}  // namespace ddprun::trainer
