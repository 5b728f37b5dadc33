#include "trainer/config/cross_check.h"

#include <cmath>
#include <string>
#include <string_view>

namespace ddprun::trainer {

namespace {

class Checker {
 public:
  Checker(const Entries& entries, const Config& config, Problems* problems)
      : entries_(entries), config_(config), problems_(problems) {}

  void CheckRequired();
  void CheckScopes();
  void CheckModel();
  void CheckData();
  void CheckScheduler();
  void CheckStrategy();

 private:
  bool Given(std::string_view path) const { return entries_.Find(path) != nullptr; }
  void Missing(std::string_view path, std::string_view needed_for);
  void Conflict(std::string_view path, std::string found, std::string hint);
  void CheckSize(std::string_view path, int64_t size, const char* which, int64_t layer_size);

  const Entries& entries_;
  const Config& config_;
  Problems* problems_;
};

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

void Checker::CheckRequired() {
  for (const Key& key : AllKeys()) {
    if (key.required && entries_.Find(key) == nullptr) Missing(key.Path(), "every config");
  }
}

// Keys for another kind of model, data or optimizer would be ignored: say so. A value that equals
// the default does no harm; config.resolved.json holds all keys.
void Checker::CheckScopes() {
  Config config = config_;
  Config defaults;
  for (const auto& [key, entry] : entries_.all()) {
    if (key->only_for.empty()) continue;
    const Key& scope = GetKey(key->only_for);
    const std::string word = SlotText(scope.slot(config));
    const std::string wanted = "\"" + std::string(key->only_value) + "\"";
    if (word == wanted) continue;
    if (SlotText(key->slot(config)) == SlotText(key->slot(defaults))) continue;
    Conflict(key->Path(),
             key->Path() + " is for " + scope.Path() + " " + wanted + ", but this config has " +
                 word + ":",
             "Remove the key, or set " + scope.Path() + " to " + wanted + ".");
  }
}

void Checker::CheckModel() {
  const ModelConfig& model = config_.model;
  if (model.type == ModelType::kGpt) {
    if (model.hidden_size % model.num_attention_heads != 0) {
      const bool heads = Given("model.num_attention_heads");
      Conflict(heads ? "model.num_attention_heads" : "model.hidden_size",
               "model.hidden_size (" + std::to_string(model.hidden_size) +
                   ") is no multiple of model.num_attention_heads (" +
                   std::to_string(model.num_attention_heads) + "):",
               "Every head takes an equal share of the hidden size.");
    }
    if (config_.data.format == DataFormat::kText && model.vocab_size < 256) {
      Conflict("model.vocab_size", "Text is read by bytes, and bytes have 256 values:",
               "Set model.vocab_size to 256 or more.");
    }
    return;
  }
  if (model.layer_sizes.empty()) return Missing("model.layer_sizes", "model.type \"mlp\"");
  if (model.layer_sizes.size() < 2) {
    Conflict("model.layer_sizes", "One size makes no layer:",
             "Give the input and the output size at least, as in [10, 5].");
  }
}

void Checker::CheckSize(std::string_view path,
                        int64_t size,
                        const char* which,
                        int64_t layer_size) {
  if (size == 0) return Missing(path, "data.format \"random\"");
  if (size == layer_size) return;
  Conflict(path,
           std::string(path) + " (" + std::to_string(size) + ") differs from the " + which +
               " of model.layer_sizes (" + std::to_string(layer_size) + "):",
           "They must be equal.");
}

void Checker::CheckData() {
  const DataConfig& data = config_.data;
  const bool text = data.format == DataFormat::kText;
  const bool gpt = config_.model.type == ModelType::kGpt;
  if (gpt && !text) {
    return Conflict("data.format", "model.type \"gpt\" trains on text, not on random tensors:",
                    "Set data.format to \"text\", or model.type to \"mlp\".");
  }
  if (!gpt && text) {
    const std::string path = Given("data.format") ? "data.format" : "model.type";
    return Conflict(path, "model.type \"mlp\" trains on random tensors, not on text:",
                    "Set data.format to \"random\", or model.type to \"gpt\".");
  }
  if (text) {
    if (data.train_files.empty()) Missing("data.train_files", "data.format \"text\"");
    if (data.validation_fraction > 0 && !data.validation_files.empty()) {
      Conflict("data.validation_fraction",
               "There are data.validation_files already, so no share of the training text is "
               "needed:",
               "Remove one of the two keys.");
    }
    return;
  }
  if (data.num_samples == 0) Missing("data.num_samples", "data.format \"random\"");
  if (config_.model.layer_sizes.empty()) return;  // reported already
  CheckSize("data.input_size", data.input_size, "first", config_.model.layer_sizes.front());
  CheckSize("data.target_size", data.target_size, "last", config_.model.layer_sizes.back());
}

void Checker::CheckScheduler() {
  const double warmup = config_.scheduler.warmup_steps;
  if (warmup < 1 || std::trunc(warmup) == warmup) return;
  Conflict("scheduler.warmup_steps",
           "From 1 on this is a number of steps, which cannot have a fraction:",
           "Below 1 it is a share of the run: 0.1 warms up over the first tenth.");
}

void Checker::CheckStrategy() {
  const Overlap overlap = config_.strategy.overlap;
  if (overlap == Overlap::kBackward || overlap == Overlap::kNone) return;
  Config config = config_;
  if (config.training.max_grad_norm == 0) return;
  Conflict("strategy.overlap",
           "The optimizer starts before all gradients are reduced, but training.max_grad_norm (" +
               SlotText(&config.training.max_grad_norm) + ") needs the norm of all:",
           "Set training.max_grad_norm to 0, or strategy.overlap to \"backward\".");
}

}  // namespace

void FillDerivedDefaults(const Entries& entries, Config* config) {
  const auto has_value = [&](std::string_view path) {
    const Entry* entry = entries.Find(path);
    return entry != nullptr && entry->value.kind != JsonValue::Kind::kNull;
  };
  if (!has_value("data.data_seed")) config->data.data_seed = config->run.seed;
  if (!has_value("optimizer.weight_decay") && config->optimizer.type != OptimizerType::kAdamW) {
    config->optimizer.weight_decay = 0;
  }
  if (config->model.type == ModelType::kGpt && config->model.intermediate_size == 0) {
    config->model.intermediate_size = 4 * config->model.hidden_size;
  }
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
  checker.CheckModel();
  checker.CheckData();
  checker.CheckScheduler();
  checker.CheckStrategy();
}

}  // namespace ddprun::trainer
