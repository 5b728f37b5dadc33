#include <string>
#include <string_view>

#include "trainer/config/checker.h"
#include "trainer/config/facts.h"

namespace ddprun::trainer {

namespace {

void CheckRequired(Checker& check) {
  for (const Key& key : AllKeys()) {
    if (!key.required || check.entries.Find(key) != nullptr) continue;
    check.Missing(key.Path(), "every config");
  }
}

// Reports keys for another kind of model, data or optimizer, because they would be ignored. Allows
// values that equal the default, because config.resolved.json holds all keys.
void CheckScopes(Checker& check) {
  for (const auto& [key, entry] : check.entries.all()) {
    for (const Scope* scope : {&key->only_for, &key->not_for}) {
      if (scope->key.empty() || IsDefault(*key, check.config)) continue;
      const bool only = scope == &key->only_for;
      if (HasWord(GetKey(scope->key), scope->values, check.config) == only) continue;
      check.Conflict(key->Path(),
                     key->Path() + (only ? " is for " : " is not for ") + ScopeText(*scope) +
                         ", but this config has " + ValueText(GetKey(scope->key), check.config) +
                         ":",
                     "Remove the key, or change " + std::string(scope->key) + ".");
    }
  }
}

void CheckFacts(Checker& check) {
  for (const auto& conflict : ConflictsOf(check.config)) {
    const bool only_maker = check.Given(conflict.maker) && !check.Given(conflict.refuser);
    check.Conflict(only_maker ? conflict.maker : conflict.refuser, conflict.found, conflict.hint);
  }
}

bool HasValue(const Entries& entries, std::string_view path) {
  const Entry* entry = entries.Find(path);
  return entry != nullptr && entry->value.kind != JsonValue::Kind::kNull;
}

void FillModelDefaults(const Entries& entries, Config* config) {
  ModelConfig& model = config->model;
  for (const auto& [key, entry] : entries.all()) {
    if (key->section == "model" && HasValue(entries, key->Path())) {
      model.given.emplace_back(key->name);
    }
  }
  if (!IsTransformer(model.type)) return;
  if (!HasValue(entries, "model.attention_dropout")) model.attention_dropout = model.dropout;
  if (model.type == ModelType::kGpt && !HasValue(entries, "model.embedding_dropout")) {
    model.embedding_dropout = model.dropout;
  }
  const bool classifies = model.type == ModelType::kBert;
  if (classifies && !HasValue(entries, "model.classifier_dropout")) {
    model.classifier_dropout = model.dropout;
  }
  if (model.intermediate_size == 0) model.intermediate_size = 4 * model.hidden_size;
  if (model.max_position_embeddings == 0) {
    model.max_position_embeddings = config->data.max_seq_length;
  }
  if (model.type != ModelType::kLlama) return;
  if (model.num_key_value_heads == 0) model.num_key_value_heads = model.num_attention_heads;
  if (model.head_dim == 0) model.head_dim = model.hidden_size / model.num_attention_heads;
}

}  // namespace

void FillDerivedDefaults(const Entries& entries, Config* config) {
  const auto has_value = [&](std::string_view path) { return HasValue(entries, path); };
  config->optimizer.type_given = has_value("optimizer.type");
  if (!has_value("data.data_seed")) config->data.data_seed = config->run.seed;
  // For other formats it keeps its default, which any config may hold.
  if (config->data.format == DataFormat::kRandom && !has_value("data.dataset_seed")) {
    config->data.dataset_seed = config->data.data_seed;
  }
  OptimizerConfig& optimizer = config->optimizer;
  if (!has_value("optimizer.weight_decay") && optimizer.type != OptimizerType::kAdamW) {
    optimizer.weight_decay = 0;
  }
  if (!has_value("optimizer.betas") && optimizer.type == OptimizerType::kLion) {
    optimizer.betas = {0.9, 0.99};
  }
  if (!has_value("optimizer.eps") && optimizer.type == OptimizerType::kAdagrad) {
    optimizer.eps = 1e-10;
  }
  SchedulerConfig& scheduler = config->scheduler;
  if (!has_value("scheduler.min_lr_ratio") &&
      scheduler.lr_scheduler_type == LrSchedulerType::kReduceLrOnPlateau) {
    scheduler.min_lr_ratio = 0;
  }
  // A search tries learning rates that are too high, and leaves no useful weights.
  if (!scheduler.range_test.empty()) {
    if (!has_value("training.stop_on_bad_loss")) config->training.stop_on_bad_loss = false;
    if (!has_value("report.logging_steps")) config->report.logging_steps = 1;
    if (!has_value("checkpoint.save_at_end")) config->checkpoint.save_at_end = false;
  }
  FillModelDefaults(entries, config);
  if (config->training.per_device_eval_batch_size == 0) {
    config->training.per_device_eval_batch_size = config->training.per_device_train_batch_size;
  }
}

void CrossCheck(const Entries& entries, const Config& config, Problems* problems) {
  Checker checker(entries, config, problems);
  CheckRequired(checker);
  // Without model.type, other checks would report problems of a type that nobody chose.
  if (entries.Find("model.type") == nullptr) return;
  for (const auto part :
       {CheckScopes, CheckRun, CheckModel, CheckLora, CheckData, CheckLoss, CheckCheckpoints,
        CheckFacts, CheckOptimizer, CheckScheduler, CheckStrategy, CheckMetrics}) {
    part(checker);
  }
}

}  // namespace ddprun::trainer
