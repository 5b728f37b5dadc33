// The typed form of a config file, after defaults and overrides.
// Plain values. Ranges, units and meanings of all keys are in the key table (keys.h), from which
// docs/config.md is generated. ReadConfig() (read_config.h) fills and checks a Config.
#pragma once

#include "trainer/config/data_config.h"
#include "trainer/config/model_config.h"
#include "trainer/config/optimizer_config.h"
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
