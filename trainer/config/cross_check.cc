#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "trainer/config/checker.h"
#include "trainer/config/facts.h"
#include "trainer/config/foreign_names.h"

namespace ddprun::trainer {

void Checker::Missing(std::string_view path, std::string_view needed_for) {
  const Key& key = GetKey(path);
  // Sizes have 0 in their range only so that a resolved config can hold every key.
  const bool zero_is_absent = key.range.min == 0;
  problems_->Add(entries_.ErrorAbout(
      path, {.title = "MISSING KEY",
             .page = "missing-key",
             .found = std::string(path) + " is missing; " + std::string(needed_for) + " needs it:",
             .expected = zero_is_absent ? "" : "Accepted: " + AcceptedText(key) + ".",
             .hint = std::string(key.meaning)}));
}

void Checker::Conflict(std::string_view path, std::string found, std::string hint) {
  problems_->Add(entries_.ErrorAbout(path, {.title = "KEYS THAT DO NOT FIT",
                                            .page = "keys-that-do-not-fit",
                                            .found = std::move(found),
                                            .hint = std::move(hint)}));
}

void Checker::UnknownChoice(std::string_view path,
                            const std::string& word,
                            const std::string& what,
                            const std::string& accepted,
                            std::string hint) {
  problems_->Add(entries_.ErrorAbout(path, {.title = "UNKNOWN CHOICE",
                                            .page = "unknown-choice",
                                            .found = "\"" + word + "\" is no " + what + ":",
                                            .expected = "Accepted: " + accepted + ".",
                                            .hint = std::move(hint)}));
}

void Checker::CheckWord(std::string_view path,
                        const std::string& word,
                        std::span<const std::string_view> words,
                        const std::string& what) {
  if (std::ranges::find(words, word) != words.end()) return;
  UnknownChoice(path, word, what, FormatList(words, ", ", "\""), ChoiceHint(path, word, words));
}

void Checker::CheckRequired() {
  for (const Key& key : AllKeys()) {
    if (key.required && entries_.Find(key) == nullptr) Missing(key.Path(), "every config");
  }
}

// Keys for another kind of model, data or optimizer would be ignored: say so. A value that equals
// the default does no harm; config.resolved.json holds all keys.
void Checker::CheckScopes() {
  for (const auto& [key, entry] : entries_.all()) {
    for (const Scope* scope : {&key->only_for, &key->not_for}) {
      if (scope->key.empty() || IsDefault(*key, config_)) continue;
      const bool only = scope == &key->only_for;
      if (HasWord(GetKey(scope->key), scope->values, config_) == only) continue;
      Conflict(key->Path(),
               key->Path() + (only ? " is for " : " is not for ") + ScopeText(*scope) +
                   ", but this config has " + ValueText(GetKey(scope->key), config_) + ":",
               "Remove the key, or change " + std::string(scope->key) + ".");
    }
  }
}

void Checker::CheckFacts() {
  for (const auto& conflict : ConflictsOf(config_)) {
    const bool only_maker = Given(conflict.maker) && !Given(conflict.refuser);
    Conflict(only_maker ? conflict.maker : conflict.refuser, conflict.found, conflict.hint);
  }
}

namespace {

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
  // Elsewhere it stays at the default, which a config of any format may hold.
  if (config->data.format == DataFormat::kRandom && !has_value("data.dataset_seed")) {
    config->data.dataset_seed = config->data.data_seed;
  }
  if (!has_value("optimizer.weight_decay") && config->optimizer.type != OptimizerType::kAdamW) {
    config->optimizer.weight_decay = 0;
  }
  FillModelDefaults(entries, config);
  if (config->training.per_device_eval_batch_size == 0) {
    config->training.per_device_eval_batch_size = config->training.per_device_train_batch_size;
  }
}

void CrossCheck(const Entries& entries, const Config& config, Problems* problems) {
  Checker checker(entries, config, problems);
  checker.CheckRequired();
  // Without a model type the rest would complain about a choice that was never made.
  if (entries.Find("model.type") == nullptr) return;
  checker.CheckScopes();
  checker.CheckRun();
  checker.CheckModel();
  checker.CheckData();
  checker.CheckLoss();
  checker.CheckCheckpoints();
  checker.CheckFacts();
  checker.CheckScheduler();
  checker.CheckStrategy();
  checker.CheckMetrics();
}

}  // namespace ddprun::trainer
