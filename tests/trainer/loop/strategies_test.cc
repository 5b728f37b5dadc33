// Every strategy against one process on the same global batch, and every one's checkpoint in every
// other one. Dropout is 0: ranks draw numbers of their own.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include "tests/trainer/loop/resume_fixture.h"
#include "tests/trainer/loop/small_jobs.h"
#include "trainer/compute/device.h"
#include "trainer/job/options_of.h"
#include "trainer/models/pretrained.h"

namespace ddprun::trainer {
namespace {

constexpr int64_t kStepSamples = 8;
constexpr int64_t kRunSteps = 20;

struct Cell {
  std::string name;
  int ranks = 1;
  StrategyConfig strategy = {};
};

StrategyConfig Of(StrategyType type, const ParallelDims& dims = {}) {
  StrategyConfig config;
  config.type = type;
  config.tensor_parallel_size = dims.tensor;
  config.pipeline_parallel_size = dims.pipeline;
  config.shard_size = dims.shard;
  return config;
}

StrategyConfig OnDevices(StrategyType type, size_t count) {
  StrategyConfig config = Of(type);
  config.devices.assign(count, "cpu");
  return config;
}

StrategyConfig InStages(PipelineSchedule schedule,
                        const ParallelDims& dims,
                        StrategyType type = StrategyType::kPipeline) {
  StrategyConfig config = Of(type, dims);
  config.pipeline_schedule = schedule;
  config.pipeline_micro_batches = 2;
  return config;
}

std::vector<Cell> Cells() {
  using enum StrategyType;
  using enum PipelineSchedule;
  return {
      {"Ddp1", 1, Of(kDdp)},
      {"Ddp2", 2, Of(kDdp)},
      {"Ddp4", 4, Of(kDdp)},
      {"Tensor2", 2, Of(kTensorParallel, {.tensor = 0})},
      {"Tensor4", 4, Of(kTensorParallel, {.tensor = 4})},
      {"Tensor2Data2", 4, Of(kTensorParallel, {.tensor = 2})},
      {"Zero1Of2", 2, Of(kZero1, {.tensor = 0, .pipeline = 0})},
      {"Zero2Of2", 2, Of(kZero2, {.tensor = 0, .pipeline = 0})},
      {"Zero3Of2", 2, Of(kZero3, {.tensor = 0, .pipeline = 0})},
      {"Zero1Of4", 4, Of(kZero1, {.tensor = 0, .pipeline = 0})},
      {"Zero2Of4", 4, Of(kZero2, {.tensor = 0, .pipeline = 0})},
      {"Zero3Of4", 4, Of(kZero3, {.tensor = 0, .pipeline = 0})},
      {"Zero2Of2Data2", 4, Of(kZero2, {.tensor = 0, .pipeline = 0, .shard = 2})},
      {"Zero3Of2Data2", 4, Of(kZero3, {.tensor = 0, .pipeline = 0, .shard = 2})},
      {"Pipeline2", 2, InStages(k1F1B, {.pipeline = 2})},
      {"Pipeline2Gpipe", 2, InStages(kGpipe, {.pipeline = 2})},
      {"Pipeline2Data2", 4, InStages(k1F1B, {.pipeline = 2})},
      {"Pipeline2Tensor2", 4, InStages(k1F1B, {.tensor = 2, .pipeline = 2})},
      {"Pipeline2Tensor2Gpipe", 4, InStages(kGpipe, {.tensor = 2, .pipeline = 2})},
      {"Pipeline2Tensor2Data2", 8, InStages(k1F1B, {.tensor = 2, .pipeline = 2})},
      {"Zero1Tensor2", 4, Of(kZero1, {.tensor = 2})},
      {"Zero2Tensor2", 4, Of(kZero2, {.tensor = 2})},
      {"Zero3Tensor2", 4, Of(kZero3, {.tensor = 2})},
      {"Zero3Tensor2Alone", 2, Of(kZero3, {.tensor = 2})},
      {"Zero1Of2Tensor2Data2", 8, Of(kZero1, {.tensor = 2, .shard = 2})},
      {"Zero2Tensor2Of4", 8, Of(kZero2, {.tensor = 2})},
      {"Zero3Of2Tensor2Data2", 8, Of(kZero3, {.tensor = 2, .shard = 2})},
      {"Zero1Pipeline2", 4, InStages(k1F1B, {.pipeline = 2}, kZero1)},
      {"Zero1Pipeline2Tensor2", 8, InStages(k1F1B, {.tensor = 2, .pipeline = 2}, kZero1)},
      {"PipelineOnDevices", 1, OnDevices(kPipeline, 2)},
      {"Layers", 1, OnDevices(kModelParallel, 2)},
      {"Dp1", 1, OnDevices(kDp, 1)},
      {"Dp2", 1, OnDevices(kDp, 2)},
      {"Dp4", 1, OnDevices(kDp, 4)},
  };
}

// Numbers for numbers.
class Regression final : public Dataset {
 public:
  int64_t size() const override { return kSamples; }
  bool in_memory() const override { return true; }
  DataShape shape() const override { return {.input = {6}, .target = {3}}; }
  Batch Get(std::span<const int64_t> indices) const override {
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> targets;
    for (const int64_t index : indices) {
      inputs.push_back(Random({6}, 200 + index));
      targets.push_back(Random({3}, 300 + index));
    }
    const auto count = static_cast<int64_t>(indices.size());
    return {.inputs = at::stack(inputs),
            .targets = at::stack(targets),
            .samples = count,
            .predictions = count};
  }
};

// Texts of several lengths in two classes.
class Texts final : public Dataset {
 public:
  int64_t size() const override { return kSamples; }
  bool in_memory() const override { return true; }
  DataShape shape() const override { return {.classes = 2}; }
  Batch Get(std::span<const int64_t> indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    Batch batch{.inputs = at::zeros({count, kTokens}, at::kLong),
                .targets = at::zeros({count}, at::kLong),
                .attention_mask = at::zeros({count, kTokens}, at::kLong),
                .token_type_ids = at::zeros({count, kTokens}, at::kLong),
                .samples = count,
                .predictions = count};
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = indices[static_cast<size_t>(i)];
      const int64_t length = kTokens - index % 5;
      const at::Tensor words = Random({length}, 400 + index).mul(15).abs().clamp(1, 47);
      batch.inputs[i].slice(0, 0, length).copy_(words.to(at::kLong));
      batch.attention_mask[i].slice(0, 0, length).fill_(1);
      batch.targets[i].fill_(index * index % 3 % 2);
    }
    return batch;
  }
};

template <typename Options>
Options Transformer(int64_t vocabulary) {
  Options options;
  options.vocab_size = vocabulary;
  options.max_position_embeddings = kTokens;
  options.hidden_size = 16;
  options.num_hidden_layers = 4;
  options.num_attention_heads = 4;
  options.intermediate_size = 32;
  return options;
}

struct Subject {
  std::string name;
  ModelOptions model;
  std::unique_ptr<Dataset> (*data)();
};

template <typename Data>
std::unique_ptr<Dataset> New() {
  return std::make_unique<Data>();
}

std::vector<Subject> Subjects() {
  MlpOptions mlp;
  mlp.sizes = {6, 8, 12, 8, 3};
  LlamaOptions llama = Transformer<LlamaOptions>(256);
  llama.num_key_value_heads = 4;
  llama.tie_word_embeddings = false;
  return {{"Mlp", mlp, New<Regression>},
          {"Bert", Transformer<BertOptions>(48), New<Texts>},
          {"Gpt", Transformer<GptOptions>(256), New<UnevenText>},
          {"Llama", llama, New<UnevenText>}};
}

// While it lives, models and random numbers are of that type.
class DefaultType {
 public:
  explicit DefaultType(at::ScalarType type) : before_(c10::get_default_dtype()) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(type));
  }
  ~DefaultType() { c10::set_default_dtype(before_); }
  DefaultType(const DefaultType&) = delete;
  DefaultType& operator=(const DefaultType&) = delete;

 private:
  const caffe2::TypeMeta before_;
};

double Tolerance() {
  return c10::get_default_dtype_as_scalartype() == at::kDouble ? 1e-10 : 1e-5;
}

class StrategiesFixture : public ResumeFixture {
 protected:
  Job JobFor(const Subject& subject, const Cell& cell) {
    Job job;
    job.config.run.max_steps = kRunSteps;
    job.config.model.max_position_embeddings = job.config.data.max_seq_length = kTokens;
    job.config.data.shuffle = false;
    job.config.optimizer.learning_rate = 3e-3;
    job.config.checkpoint.save_steps = {.amount = 1000, .unit = IntervalUnit::kEpochs};
    job.config.strategy = cell.strategy;
    const ParallelDims dims = ValueOrThrow(ResolveDims(job.config, cell.ranks));
    job.config.training.per_device_train_batch_size =
        kStepSamples / dims.data / dims.sample_devices();
    job.model = subject.model;
    job.shape = MakeModelShape(job.model);
    job.train = subject.data();
    job.config.model.name_or_path = WeightsOf(subject);
    if (subject.name == "Bert") {
      job.config.optimizer.ema_decay = 0.9;
      job.config.training.per_device_eval_batch_size = 4;
      job.validation = subject.data();  // after the last step
    }
    return job;
  }

  // Drawn once, by one thread.
  std::string WeightsOf(const Subject& subject) {
    const std::string folder = folder_ + "/" + subject.name;
    if (std::filesystem::exists(folder)) return folder;
    SeedGenerators(at::kCPU, 7);
    const std::shared_ptr<Model> model = MakeModel(subject.model);
    SavePretrained(*model, folder);
    return folder;
  }

  ResumeOutcome RunCell(const Subject& subject,
                        const Cell& cell,
                        const std::string& where,
                        int64_t stop = -1) {
    return Run(JobFor(subject, cell), cell.ranks, where, stop);
  }

  // And norms: those of `expected` from `first` on.
  static void ExpectLosses(const ResumeOutcome& found,
                           const ResumeOutcome& expected,
                           size_t first = 0) {
    ASSERT_EQ(found.steps.size() + first, expected.steps.size());
    for (size_t i = 0; i < found.steps.size(); ++i) {
      const double loss = expected.steps[first + i].loss;
      ASSERT_GT(loss, 0);
      EXPECT_NEAR(found.steps[i].loss, loss, Tolerance() * loss) << "step " << first + i + 1;
      // Adam hardly minds a wrong one.
      const double norm = expected.steps[first + i].grad_norm;
      ASSERT_GT(norm, 0);
      EXPECT_NEAR(found.steps[i].grad_norm, norm, 100 * Tolerance() * norm)
          << "step " << first + i + 1;
    }
    ASSERT_EQ(found.evaluations.size(), expected.evaluations.size());
    for (size_t i = 0; i < found.evaluations.size(); ++i) {
      EXPECT_NEAR(found.evaluations[i], expected.evaluations[i], 10 * Tolerance()) << i;
    }
  }

  static void ExpectSameState(const ResumeOutcome& found, const ResumeOutcome& expected) {
    EXPECT_EQ(found.numbers, expected.numbers);
    ASSERT_EQ(found.tensors.size(), expected.tensors.size());
    for (const auto& [name, tensor] : expected.tensors) {
      ASSERT_TRUE(found.tensors.contains(name)) << name;
      const at::Tensor& other = found.tensors.at(name);
      ASSERT_EQ(other.sizes(), tensor.sizes()) << name;
      // If a gradient is only rounding, Adam still makes steps of some size.
      EXPECT_TRUE(at::allclose(other, tensor, 1e-3, 1e-4, /*equal_nan=*/true)) << name;
    }
  }
};

struct StrategyCase {
  Subject subject;
  Cell cell;
};

std::vector<StrategyCase> AllCases() {
  std::vector<StrategyCase> cases;
  for (const Subject& subject : Subjects()) {
    for (const Cell& cell : Cells()) cases.push_back({subject, cell});
  }
  return cases;
}

void PrintTo(const StrategyCase& one, std::ostream* out) {
  *out << one.subject.name << one.cell.name;
}

const Cell kSingle{"Single", 1, Of(StrategyType::kSingle)};

class Strategies : public StrategiesFixture, public testing::WithParamInterface<StrategyCase> {};

TEST_P(Strategies, HaveTheLossesOfOneProcess) {
  const auto& [subject, cell] = GetParam();
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    SCOPED_TRACE(c10::toString(type));
    const DefaultType scope(type);
    const std::string prefix = c10::toString(type);
    const ResumeOutcome single = RunCell(subject, kSingle, prefix + "single");
    ExpectLosses(RunCell(subject, cell, prefix + "cell"), single);
  }
}

TEST_P(Strategies, SaveWhatOneProcessSavesAndGoOnFromIt) {
  const auto& [subject, cell] = GetParam();
  const ResumeOutcome whole = RunCell(subject, kSingle, "whole");
  const ResumeOutcome single = RunCell(subject, kSingle, "single", kRunSteps / 2);
  ExpectSameState(RunCell(subject, cell, "cell", kRunSteps / 2), single);
  ExpectLosses(RunCell(subject, cell, "single"), whole, kRunSteps / 2);
}

INSTANTIATE_TEST_SUITE_P(All, Strategies, testing::ValuesIn(AllCases()), [](const auto& one) {
  return one.param.subject.name + one.param.cell.name;
});

class StrategyPairs : public StrategiesFixture {};

TEST_F(StrategyPairs, GoOnFromEachOthersCheckpoints) {
  const std::vector<Subject> subjects = Subjects();
  const std::vector<Cell> cells = Cells();
  std::mt19937 draw(2026);
  for (int pair = 0; pair < 20; ++pair) {
    const Subject& subject = subjects[draw() % subjects.size()];
    const Cell& first = cells[draw() % cells.size()];
    const Cell& second = cells[draw() % cells.size()];
    SCOPED_TRACE(subject.name + ": " + second.name + " after " + first.name);
    const std::string where = "pair" + std::to_string(pair);
    const ResumeOutcome whole = RunCell(subject, kSingle, where + "whole");
    RunCell(subject, first, where, kRunSteps / 2);
    ExpectLosses(RunCell(subject, second, where), whole, kRunSteps / 2);
  }
}

}  // namespace
}  // namespace ddprun::trainer
