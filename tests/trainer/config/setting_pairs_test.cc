// Every pair of settings that may not go together, with each strategy: what is refused, and what
// keeps a lost rank from being replaced, compared with tests/golden/setting_pairs.txt.
// DDPRUN_WRITE_GOLDEN=1 writes that file anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/trainer/config/config_text_fixture.h"
#include "trainer/config/facts.h"

namespace ddprun::trainer {
namespace {

using Texts = std::vector<std::string>;

const Texts kTypes = {
    "auto",
    "single",
    "ddp",
    R"(dp strategy.devices=["cpu","cpu"])",
    R"(model_parallel strategy.devices=["cpu","cpu"])",
    "pipeline",
    R"(pipeline strategy.devices=["cpu","cpu"])",
    "tensor_parallel",
    "zero1",
    "zero1 strategy.pipeline_parallel_size=2",
    "zero2",
    "zero3",
};

const Texts kSettings = {
    "strategy.overlap=step",
    "strategy.overlap=both",
    "strategy.overlap=none",
    "strategy.optimizer_in_backward=true",
    "strategy.find_unused_parameters=true",
    "strategy.static_graph=true",
    "strategy.broadcast_buffers=false",
    "strategy.check_finite=true",
    "strategy.bucket_cap_mb=auto",
    "strategy.bucket_cap_mb=10",
    "strategy.first_bucket_mb=2",
    "strategy.comm_hook=bf16",
    "strategy.comm_hook=power_sgd",
    "strategy.comm_hook=post_local_sgd",
    "strategy.tensor_parallel_size=2",
    "strategy.pipeline_parallel_size=2",
    "strategy.pipeline_micro_batches=4",
    "strategy.shard_size=2",
    "comm.algorithm=ring",
    "comm.emulated_link=1",
    "optimizer.ema_decay=0.9",
    "training.max_grad_norm=1",
    "training.max_grad_value=0.1",
    "training.max_norm_jump=10",
    "training.precision=fp16",
    "training.virtual_ranks=4",
    "training.gradient_checkpointing=true",
    "training.gradient_accumulation_steps=4",
    "training.cuda_graph=true",
    "report.state_hashes=true",
    "run.recovery=peer",
    "run.recovery=memory",
    "model.type=plugin model.path=a",
    "model.type=torchscript model.path=a",
    "data.format=plugin data.plugin=a",
};

Texts Words(const std::string& text) {
  std::istringstream in(text);
  Texts words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string KeyOf(const std::string& setting) {
  return setting.substr(0, setting.find('='));
}

// Numbers of texts, in the order in which they first came.
class TextNumbers {
 public:
  std::string Of(const std::string& text) {
    const auto [at, added] = numbers_.try_emplace(text, texts_.size() + 1);
    if (added) texts_.push_back(text);
    return "#" + std::to_string(at->second);
  }
  const Texts& texts() const { return texts_; }

 private:
  std::map<std::string, size_t> numbers_;
  Texts texts_;
};

// All of a message but the line of its source, which `where` has, too.
std::string TextOf(const Error& error) {
  const std::string found = error.what.substr(0, error.what.find('\n'));
  return error.page + ": " + error.where + "\n" + found + "\n" + error.hint + "\n";
}

struct Verdict {
  Texts refusals;        // numbers of texts, sorted
  std::string obstacle;  // of replacing a lost rank; "" where there is none, or a refusal
  bool operator==(const Verdict&) const = default;
};

Verdict Judge(const std::string& type, const Texts& settings, TextNumbers& numbers) {
  Texts overrides = {"training.max_grad_norm=0"};
  for (const std::string& word : Words("strategy.type=" + type)) overrides.push_back(word);
  for (const std::string& setting : settings) {
    for (const std::string& word : Words(setting)) overrides.push_back(word);
  }
  const Result<Config> config = Read({kGpt, overrides});
  if (config.has_value()) {
    return {.refusals = {}, .obstacle = ObstacleTo("run.recovery", *config, AllSettings(), "peer")};
  }
  Verdict verdict;
  std::vector<Error> errors = {config.error()};
  errors.insert(errors.end(), config.error().more.begin(), config.error().more.end());
  for (const Error& error : errors) verdict.refusals.push_back(numbers.Of(TextOf(error)));
  std::ranges::sort(verdict.refusals);
  return verdict;
}

// Joins the verdicts of two settings that stand alone; the first one's obstacle comes first.
Verdict Both(const Verdict& one, const Verdict& other) {
  Verdict both;
  std::ranges::set_union(one.refusals, other.refusals, std::back_inserter(both.refusals));
  const bool refused = !both.refusals.empty();
  both.obstacle = refused ? "" : one.obstacle.empty() ? other.obstacle : one.obstacle;
  return both;
}

std::string LineOf(const std::string& settings, const Verdict& verdict) {
  std::string line = "  " + settings + ":";
  for (const std::string& number : verdict.refusals) line += " " + number;
  return line + (verdict.obstacle.empty() ? "" : " recovery: " + verdict.obstacle) + "\n";
}

// For each strategy what is said of it alone; of a setting, where it is something else; and of two
// settings, where it is something else than of both alone.
std::string Table() {
  TextNumbers numbers;
  std::string table =
      "Made by trainer_config_test --gtest_filter=SettingPairs.* with DDPRUN_WRITE_GOLDEN=1.\n"
      "\"type\": the strategy alone. A setting that is not listed is judged like it; a pair that\n"
      "is not listed is refused as both of its settings are, or has the first one's obstacle.\n";
  for (const std::string& type : kTypes) {
    table += "\n" + type + "\n";
    const Verdict bare = Judge(type, {}, numbers);
    table += LineOf("type", bare);
    std::vector<Verdict> alone;
    for (const std::string& setting : kSettings) {
      alone.push_back(Judge(type, {setting}, numbers));
      if (alone.back() != bare) table += LineOf(setting, alone.back());
    }
    for (size_t i = 0; i < kSettings.size(); ++i) {
      for (size_t k = i + 1; k < kSettings.size(); ++k) {
        if (KeyOf(kSettings[i]) == KeyOf(kSettings[k])) continue;
        const Verdict pair = Judge(type, {kSettings[i], kSettings[k]}, numbers);
        if (pair == Both(alone[i], alone[k])) continue;
        table += LineOf(kSettings[i] + " & " + kSettings[k], pair);
      }
    }
  }
  for (size_t i = 0; i < numbers.texts().size(); ++i) {
    table += "\n#" + std::to_string(i + 1) + " " + numbers.texts()[i];
  }
  return table;
}

TEST(SettingPairs, AreRefusedAsTheGoldenFileSays) {
  const std::string path = DDPRUN_SOURCE_DIR "/tests/golden/setting_pairs.txt";
  const std::string found = Table();
  if (std::getenv("DDPRUN_WRITE_GOLDEN") != nullptr) std::ofstream(path) << found;
  std::stringstream golden;
  golden << std::ifstream(path).rdbuf();
  std::string was, is_now;
  for (std::stringstream lines(found); std::getline(lines, is_now);) {
    std::getline(golden, was);
    ASSERT_EQ(was, is_now);
  }
  EXPECT_FALSE(std::getline(golden, was)) << was;
}

}  // namespace
}  // namespace ddprun::trainer
