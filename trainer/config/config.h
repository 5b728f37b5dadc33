// What one training run is: the typed form of a config file, after defaults and overrides.
// Plain values without behaviour. Ranges, units' reasons and other names of every key stand in
// keys.cc, from which docs/config.md is generated; ReadConfig (read_config.h) fills and checks it.
#pragma once

#include "trainer/config/data_config.h"
#include "trainer/config/model_config.h"
#include "trainer/config/strategy_config.h"
#include "trainer/config/training_config.h"

namespace ddprun::trainer {

struct Config {
  RunConfig run;
  ModelConfig model;
  DataConfig data;
  TrainingConfig training;
  OptimizerConfig optimizer;
  SchedulerConfig scheduler;
  StrategyConfig strategy;
  CommConfig comm;
  CheckpointConfig checkpoint;
  EvaluationConfig evaluation;
  ReportConfig report;
};

}  // namespace ddprun::trainer
