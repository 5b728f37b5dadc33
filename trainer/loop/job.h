// What a config says, opened and checked: everything that can be wrong before training starts is
// found here, once per node, before any rank is forked.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/env.h"
#include "trainer/config/config.h"
#include "trainer/cuda/cuda_module.h"
#include "trainer/data/dataset.h"
#include "trainer/loop/step_plan.h"
#include "trainer/models/registry.h"
#include "trainer/models/step_memory.h"

namespace ddprun::trainer {

struct Job {
  Config config;
  std::string config_path;
  DeviceChoice device;
  ModelOptions model;
  std::shared_ptr<const Model> shape;  // MakeModelShape(model)
  BatchSize largest_batch;             // LargestBatch(job)
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> validation;   // nullptr when there is none
  std::vector<std::string> data_notes;   // what was left out of the training data; lines
  std::vector<std::string> model_notes;  // what the model will not do; lines
  // To be saved beside the weights: how the files became inputs. Text by name.
  std::map<std::string, std::string> model_files;
  // Of each training sample; only for batches of similar lengths (data.length_grouped).
  std::vector<int64_t> train_lengths;
  // Data sets that `train` and `validation` are parts of.
  std::vector<std::unique_ptr<Dataset>> wholes;
};

// Does one part of opening a job and says whether it went well. OpenJob's lets a Failure pass.
using Attempt = std::function<bool(const std::function<void()>& part)>;

// Opens the model and the data that job.config names, and compares them with each other and with
// the weights: the parts that do not need one that has failed.
void OpenParts(Job& job, const Attempt& attempt);

// Reads the config, opens the module of its device, and its data. `overrides`: "section.key=value",
// as after --set. Throws Failure.
Job OpenJob(const std::string& config_path,
            const std::vector<std::string>& overrides,
            const Environment& environment);

// How `world_size` ranks train the job. Throws Failure where they cannot: its strategy is for one,
// or there is not data for each.
StepPlan PlanFor(const Job& job, int world_size);

// Keys of the config that such a run will not feel, a line each.
std::vector<std::string> WarningsOf(const Job& job, const StepPlan& plan);

// The rank's share of the training samples. The options refer to `job`.
DistributedSamplerOptions TrainSamplerOptions(const Job& job, const LogicalRank& rank);

}  // namespace ddprun::trainer
