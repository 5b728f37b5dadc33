#include "benchmarks/ddp_bench/step_case.h"

#include <ATen/Functions.h>

#include "base/check.h"

namespace ddprun::bench {

namespace {

constexpr int64_t kVocabulary = 256;

trainer::ModelOptions ModelOptionsOf(const CaseOptions& options) {
  if (options.model == "mlp") return trainer::MlpOptions{.sizes = options.sizes};
  DDPRUN_CHECK(options.sizes.size() == 3);
  return trainer::GptOptions{{.vocab_size = kVocabulary,
                              .max_position_embeddings = options.sequence,
                              .hidden_size = options.sizes[0],
                              .num_hidden_layers = options.sizes[1],
                              .num_attention_heads = options.sizes[2]}};
}

Batch MakeBatch(const CaseOptions& options) {
  if (options.model == "mlp") {
    return {.inputs = at::randn({options.batch, options.sizes.front()}),
            .targets = at::randn({options.batch, options.sizes.back()}),
            .samples = options.batch,
            .predictions = options.batch};
  }
  const std::vector<int64_t> shape = {options.batch, options.sequence};
  return {.inputs = at::randint(kVocabulary, shape, at::kLong),
          .targets = at::randint(kVocabulary, shape, at::kLong),
          .samples = options.batch,
          .predictions = options.batch * options.sequence};
}

}  // namespace

StepCase MakeCase(const CaseOptions& options, int rank) {
  StepCase result;
  at::manual_seed(42);
  result.model = trainer::MakeModel(ModelOptionsOf(options));
  at::manual_seed(static_cast<uint64_t>(100 + rank));
  result.batch = MakeBatch(options);
  result.name = options.model;
  for (size_t i = 0; i < options.sizes.size(); ++i) {
    result.name += (i == 0 ? " " : "-") + std::to_string(options.sizes[i]);
  }
  using Kind = OptimizerType;
  result.optimizer = options.optimizer == "sgd" ? Kind::kSgd : Kind::kAdamW;
  return result;
}

std::unique_ptr<Optimizer> StepCase::MakeOptimizer() const {
  return ddprun::MakeOptimizer({.kind = optimizer}, {{model->parameters(), 0.0}});
}

std::vector<NamedParameter> StepCase::Parameters() const {
  std::vector<NamedParameter> parameters;
  for (const auto& item : model->named_parameters()) {
    parameters.push_back({item.key(), item.value()});
  }
  return parameters;
}

int64_t StepCase::GradientBytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& parameter : model->parameters()) {
    bytes += static_cast<int64_t>(parameter.nbytes());
  }
  return bytes;
}

}  // namespace ddprun::bench
