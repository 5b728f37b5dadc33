// What is trained in a measurement: a model, a batch of this rank, with which optimizer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/models/registry.h"
#include "trainer/optim/optimizer.h"
#include "trainer/parallel/gradient_buckets.h"

namespace ddprun::bench {

struct StepCase {
  std::string name;
  std::shared_ptr<trainer::Model> model;
  trainer::Batch batch;
  trainer::OptimizerType optimizer;

  std::unique_ptr<trainer::Optimizer> MakeOptimizer() const;
  std::vector<trainer::NamedParameter> Parameters() const;
  int64_t GradientBytes() const;
};

struct CaseOptions {
  std::string model = "gpt";
  std::vector<int64_t> sizes;  // gpt: width, layers, heads; mlp: input, hidden ..., output
  int64_t batch = 1;           // samples
  int64_t sequence = 64;       // gpt: tokens per sample
  std::string optimizer = "adamw";
};

// The same weights on every rank, random data. REQUIRES: three sizes for a gpt, two for an mlp.
StepCase MakeCase(const CaseOptions& options, int rank);

}  // namespace ddprun::bench
