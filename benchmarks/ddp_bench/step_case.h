// The model, batch and optimizer of a measurement.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ddprun/optimizer.h>
#include "trainer/models/registry.h"
#include "trainer/parallel/gradient_buckets.h"

namespace ddprun::bench {

struct StepCase {
  std::string name;
  std::shared_ptr<trainer::Model> model;
  Batch batch;
  OptimizerType optimizer;

  std::unique_ptr<Optimizer> MakeOptimizer() const;
  std::vector<NamedParameter> Parameters() const;
  int64_t GradientBytes() const;
};

struct CaseOptions {
  std::string model = "gpt";
  std::vector<int64_t> sizes;  // gpt: width, layers, heads; mlp: input, hidden layers, output
  int64_t batch = 1;           // samples
  int64_t sequence = 64;       // gpt: tokens per sample
  std::string optimizer = "adamw";
};

// Makes equal weights on all ranks, and random data. REQUIRES: 3 sizes for a gpt, 2 for an mlp.
StepCase MakeCase(const CaseOptions& options, int rank);

}  // namespace ddprun::bench
