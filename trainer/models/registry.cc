#include "trainer/models/registry.h"

#include <array>
#include <span>

#include "base/failure.h"
#include "base/suggest.h"
#include "trainer/models/gpt.h"
#include "trainer/models/mlp.h"

namespace ddprun::trainer {

namespace {

Failure UnknownName(const std::string& key,
                    const std::string& found,
                    std::span<const std::string> known) {
  std::string accepted;
  for (const std::string& name : known) accepted += (accepted.empty() ? "" : ", ") + name;
  const auto nearest = Nearest(found, known);
  return Failure(
      Error{.code = Code::kUsage,
            .title = "UNKNOWN MODEL",
            .where = "",
            .what = key + " is \"" + found + "\"; one of these was expected: " + accepted + ".",
            .hint = nearest ? "Did you mean \"" + *nearest + "\"?" : "",
            .page = "unknown-model"});
}

std::shared_ptr<Model> BuildGpt(const ModelOptions& options) {
  return MakeGpt({.vocab_size = options.vocab_size,
                  .n_positions = options.max_positions,
                  .n_embd = options.hidden_size,
                  .n_layer = options.num_hidden_layers,
                  .n_head = options.num_attention_heads,
                  .n_inner = options.intermediate_size,
                  .dropout = options.dropout,
                  .initialize = options.initialize});
}

std::shared_ptr<Model> BuildMlp(const ModelOptions& options) {
  static const std::array<std::string, 3> kActivations = {"none", "relu", "gelu"};
  for (size_t i = 0; i < kActivations.size(); ++i) {
    if (options.activation != kActivations[i]) continue;
    return MakeMlp({.sizes = options.layer_sizes,
                    .activation = static_cast<MlpOptions::Activation>(i),
                    .initialize = options.initialize});
  }
  throw UnknownName("model.activation", options.activation, kActivations);
}

struct Row {
  const char* type;
  std::shared_ptr<Model> (*build)(const ModelOptions&);
};

constexpr std::array<Row, 2> kModels = {{{"gpt", BuildGpt}, {"mlp", BuildMlp}}};

}  // namespace

std::shared_ptr<Model> MakeModel(const ModelOptions& options) {
  for (const Row& row : kModels) {
    if (row.type == options.type) return row.build(options);
  }
  throw UnknownName("model.type", options.type, ModelTypes());
}

std::vector<std::string> ModelTypes() {
  std::vector<std::string> types;
  for (const Row& row : kModels) types.emplace_back(row.type);
  return types;
}

}  // namespace ddprun::trainer
