// A config, opened and checked. Everything that can be wrong before training starts is found while
// a Job is opened (open_job.h), once per node, before any rank is forked.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/cuda/cuda_module.h"
#include "trainer/data/dataset.h"
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
  std::unique_ptr<Dataset> validation;   // nullptr if there is none
  std::unique_ptr<Dataset> test;         // data.test_files; nullptr if there are none
  std::vector<std::string> data_notes;   // what was left out of the training data; lines
  std::vector<std::string> model_notes;  // what the model will not do; lines
  // Files to save beside the weights: their texts, by name. They say how data became inputs.
  std::map<std::string, std::string> model_files;
  // The length of each training sample, if batches have similar lengths (data.length_grouped).
  std::vector<int64_t> train_lengths;
  std::vector<std::unique_ptr<Dataset>> wholes;  // `train` and `validation` are parts of them
};

}  // namespace ddprun::trainer
