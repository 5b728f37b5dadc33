// The table describes every field of Config, and its rows agree with each other.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <type_traits>

#include "tests/trainer/config/config_text_fixture.h"
#include "trainer/config/config_text.h"
#include "trainer/config/keys.h"

namespace ddprun::trainer {
namespace {

// Converts to anything: an aggregate of n fields can be made of n of these, not of n + 1.
struct Anything {
  template <typename T>
  operator T() const;  // NOLINT: implicit, declared only
};

template <typename T, typename... Fields>
constexpr size_t FieldCount() {
  if constexpr (requires { T{Fields{}..., Anything{}}; }) {
    return FieldCount<T, Fields..., Anything>();
  } else {
    return sizeof...(Fields);
  }
}

size_t KeysOf(std::string_view section) {
  size_t count = 0;
  for (const Key& key : AllKeys()) count += key.section == section ? 1 : 0;
  return count;
}

TEST(KeyTable, HasAKeyForEveryField) {
  EXPECT_EQ(FieldCount<Config>(), AllSections().size());
  EXPECT_EQ(FieldCount<RunConfig>(), KeysOf("run"));
  EXPECT_EQ(FieldCount<ModelConfig>(), KeysOf("model") + 1);  // `given` has no key
  EXPECT_EQ(FieldCount<DataConfig>(), KeysOf("data"));
  EXPECT_EQ(FieldCount<TrainingConfig>(), KeysOf("training"));
  EXPECT_EQ(FieldCount<OptimizerConfig>(), KeysOf("optimizer") + 1);  // `type_given` has no key
  EXPECT_EQ(FieldCount<SchedulerConfig>(), KeysOf("scheduler"));
  EXPECT_EQ(FieldCount<StrategyConfig>(), KeysOf("strategy"));
  EXPECT_EQ(FieldCount<CommConfig>(), KeysOf("comm"));
  EXPECT_EQ(FieldCount<CheckpointConfig>(), KeysOf("checkpoint"));
  EXPECT_EQ(FieldCount<EvaluationConfig>(), KeysOf("evaluation"));
  EXPECT_EQ(FieldCount<ReportConfig>(), KeysOf("report"));
}

// Another value than the default that the key accepts.
struct ChangeValue {
  const Key& key;
  void operator()(bool* field) const { *field = !*field; }
  void operator()(int64_t* field) const { *field += 1; }
  void operator()(double* field) const { *field = *field == 0 ? 0.5 : *field / 2; }
  void operator()(NumberOrAuto* field) const { field->automatic = !field->automatic; }
  void operator()(Interval* field) const {
    const bool timed = key.counted != CountedIn::kSteps;
    *field = {90, timed ? IntervalUnit::kSeconds : IntervalUnit::kEpochs};
  }
  void operator()(std::string* field) const { *field = "/changed ${x} \"\\ü"; }
  void operator()(const ChoiceSlot& slot) const {
    slot.set(slot.field, (slot.get(slot.field) + 1) % slot.words.size());
  }
  void operator()(std::array<double, 2>* field) const { *field = {0.123, 0.1 + 0.2}; }
  void operator()(JsonText* field) const { *field = {R"({"a":[1,null,"$${x}"],"b":{"c":0.1}})"}; }
  void operator()(std::vector<int64_t>* field) const { *field = {3, 2, 1}; }
  void operator()(std::vector<double>* field) const { *field = {0.25}; }
  void operator()(std::vector<std::string>* field) const { *field = {"/b*", "/a"}; }
};

// Keys that ask for others to change too when they change; the messages' tests read them.
const std::set<std::string> kTied = {"run.max_steps",  // 0 is the next
                                     "report.trace_steps",
                                     "run.device",    // one of some words
                                     "run.recovery",  // one of some words
                                     "model.type",
                                     "data.format",
                                     "data.label_column",
                                     "data.max_seq_length",
                                     "data.delimiter",
                                     "data.random_resized_crop",
                                     "evaluation.metrics",
                                     "model.layer_sizes",
                                     "data.input_size",
                                     "data.target_size",
                                     "model.hidden_size",
                                     "model.num_attention_heads",
                                     "model.num_key_value_heads",
                                     "model.head_dim",
                                     "model.rope_scaling",
                                     "training.class_weights",
                                     "training.balance_classes",
                                     "optimizer.learning_rate_factors",
                                     "scheduler.range_test",
                                     "data.standardize_target",
                                     "optimizer.weight_decay_factors",
                                     "strategy.devices",
                                     "strategy.output_device",
                                     "strategy.overlap",
                                     "checkpoint.save_best",
                                     "checkpoint.load_best_model_at_end",
                                     "strategy.optimizer_in_backward",
                                     "strategy.gradient_as_bucket_view"};

constexpr const char* kChat = R"({"model": {"type": "gpt"},
    "data": {"format": "chat", "tokenizer": "b", "train_files": "a"}})";

constexpr const char* kStable = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"},
    "scheduler": {"lr_scheduler_type": "warmup_stable_decay"}})";
constexpr const char* kRestarts = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"},
    "scheduler": {"lr_scheduler_type": "cosine_with_restarts"}})";
constexpr const char* kOneCycle = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"},
    "scheduler": {"lr_scheduler_type": "one_cycle"}})";
constexpr const char* kSteps = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"},
    "scheduler": {"lr_scheduler_type": "step"}})";
constexpr const char* kMultiStep = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"},
    "scheduler": {"lr_scheduler_type": "multi_step", "milestones": [5]}})";
constexpr const char* kPlateau = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"},
    "scheduler": {"lr_scheduler_type": "reduce_lr_on_plateau"}})";

// Returns a config for each word of a scope: some keys are for one model, data or optimizer only.
const std::map<std::string_view, const char*>& Configs() {
  const char* const kGpt = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"}})";
  const char* const kMlp = R"({"model": {"type": "mlp", "layer_sizes": [10, 5]},
      "data": {"format": "random", "num_samples": 8, "input_size": 10, "target_size": 5},
      "optimizer": {"type": "sgd", "momentum": 0.5}})";
  const char* const kCsv = R"({"model": {"type": "mlp", "layer_sizes": [10, 5]},
      "data": {"format": "csv", "train_files": "a", "label_column": "b"}})";
  const char* const kImages = R"({"model": {"type": "mlp", "layer_sizes": [10, 5]},
      "data": {"format": "image_folder", "train_files": "a"}})";
  const char* const kJsonLines = R"({"model": {"type": "gpt"},
      "data": {"format": "jsonl", "train_files": "a", "tokenizer": "b"}})";
  const char* const kPairs = R"({"model": {"type": "bert"},
      "data": {"format": "text_classification", "train_files": "a", "tokenizer": "b",
               "text_column": "c"}})";
  const char* const kPowerSgd = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"},
      "strategy": {"comm_hook": "power_sgd"}})";
  const char* const kZero = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"},
      "strategy": {"type": "zero1"}})";
  const char* const kDp = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"},
      "strategy": {"type": "dp", "devices": "cpu"}})";
  const char* const kTensor = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"},
      "strategy": {"type": "tensor_parallel"}})";
  const char* const kPipeline = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"},
      "strategy": {"type": "pipeline"}})";
  const char* const kFp16 = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"},
      "training": {"precision": "fp16"}})";
  const char* const kLocalSgd = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"},
      "strategy": {"comm_hook": "post_local_sgd"}})";
  const char* const kPolynomial = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"},
      "scheduler": {"lr_scheduler_type": "polynomial"}})";
  const char* const kLlama = R"({"model": {"type": "llama"}, "data": {"train_files": "a"}})";
  const char* const kCnn =
      R"({"model": {"type": "cnn"}, "data": {"format": "idx", "train_files": "a"}})";
  const char* const kTorchScript = R"({"model": {"type": "torchscript", "path": "b"},
      "data": {"format": "idx", "train_files": "a"}})";
  const char* const kPlugin =
      R"({"model": {"type": "plugin", "path": "b"}, "data": {"format": "plugin"}})";
  static const std::map<std::string_view, const char*> kConfigs = {
      {"", kGpt},
      {"mlp", kMlp},
      {"bert", kPairs},
      {"llama", kLlama},
      {"cnn", kCnn},
      {"torchscript", kTorchScript},
      {"plugin", kPlugin},
      {"dp", kDp},
      {"zero1", kZero},
      {"tensor_parallel", kTensor},
      {"pipeline", kPipeline},
      {"fp16", kFp16},
      {"cosine_with_restarts", kRestarts},
      {"polynomial", kPolynomial},
      {"warmup_stable_decay", kStable},
      {"step", kSteps},
      {"multi_step", kMultiStep},
      {"one_cycle", kOneCycle},
      {"reduce_lr_on_plateau", kPlateau},
      {"power_sgd", kPowerSgd},
      {"post_local_sgd", kLocalSgd},
      {"random", kMlp},
      {"text_classification", kPairs},
      {"sgd", kMlp},
      {"csv", kCsv},
      {"idx", kImages},
      {"jsonl", kJsonLines},
      {"chat", kChat},
      {"image_folder", kImages}};
  return kConfigs;
}

constexpr const char* kLora = R"({"model": {"type": "gpt", "name_or_path": "a"},
    "data": {"train_files": "a"}, "training": {"lora_r": 8}})";

TEST(KeyTable, EveryKeySurvivesWritingAndReading) {
  for (const Key& key : AllKeys()) {
    if (kTied.count(key.Path()) > 0) continue;
    const auto& scope = key.only_for.values;
    const auto found = Configs().find(scope.empty() ? "" : scope.front());
    const bool of_lora = key.name == "adapter" || key.name.find("lora") != key.name.npos;
    Result<Config> config = Read({of_lora                    ? kLora
                                  : found == Configs().end() ? Configs().at("")
                                                             : found->second});
    ASSERT_TRUE(config.has_value()) << Render(config.error());
    std::visit(ChangeValue{key}, key.slot(*config));
    const std::string text = WriteResolvedConfig(*config);
    Result<Config> again = Read({text});
    ASSERT_TRUE(again.has_value()) << key.Path() << Render(again.error());
    EXPECT_EQ(SlotText(key.slot(*again)), SlotText(key.slot(*config)));
    EXPECT_EQ(WriteResolvedConfig(*again), text) << key.Path();
  }
}

TEST(KeyTable, EverySectionAndScopeExists) {
  for (const Key& key : AllKeys()) {
    EXPECT_NE(FindSection(key.section), nullptr) << key.Path();
    EXPECT_FALSE(key.meaning.empty()) << key.Path();
    EXPECT_TRUE(key.meaning.ends_with('.')) << key.Path();
    if (key.only_for.key.empty()) continue;
    const Key* scope = FindKey(key.only_for.key);
    ASSERT_NE(scope, nullptr) << key.Path();
    Config config;
    const auto words = std::get<ChoiceSlot>(scope->slot(config)).words;
    for (const std::string_view value : key.only_for.values) {
      EXPECT_NE(std::find(words.begin(), words.end(), value), words.end()) << key.Path();
    }
  }
}

TEST(KeyTable, NoTwoKeysShareAFieldOrAName) {
  Config config;
  std::set<const void*> fields;
  std::set<std::string> paths;
  for (const Key& key : AllKeys()) {
    EXPECT_TRUE(paths.insert(key.Path()).second) << key.Path();
    const void* field = std::visit(
        [](const auto& slot) -> const void* {
          if constexpr (std::is_same_v<decltype(slot), const ChoiceSlot&>) {
            return slot.field;
          } else {
            return slot;
          }
        },
        key.slot(config));
    EXPECT_TRUE(fields.insert(field).second) << key.Path();
  }
}

}  // namespace
}  // namespace ddprun::trainer
