// Makes models from a job, and exchanges their parts between ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ddprun/mesh.h>
#include "trainer/job/job.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {

// Makes the job's model on `device`. If `owns_weights`, draws or reads its weights, and
// `fresh_parameters` gets the names that the model folder lacks. Throws Failure.
std::shared_ptr<Model> BuildModel(const Job& job,
                                  bool owns_weights,
                                  c10::Device device,
                                  std::vector<std::string>* fresh_parameters = nullptr);

// A collective. Gives all ranks their parts of rank 0's `whole`. Other ranks may pass nullptr.
void HandOutModel(const Model* whole, const Model& part, const Mesh& mesh);

// A collective. On rank 0, returns the whole model, gathered from all ranks. Throws Failure.
std::shared_ptr<Model> GatherModel(const Job& job, Strategy& strategy, const Mesh& mesh);

}  // namespace ddprun::trainer
