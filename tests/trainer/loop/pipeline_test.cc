// Models shared out over ranks and over devices against one process that has all of them.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/failure.h"
#include "tests/trainer/loop/small_jobs.h"
#include "tests/trainer/models/small_models.h"
#include "trainer/job/options_of.h"
#include "trainer/job/split_model.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/strategies/build_pipeline.h"
#include "trainer/strategies/single.h"

namespace ddprun::trainer {
namespace {

constexpr int64_t kGlobalBatch = 8;
constexpr int kPipelineSteps = 20;
constexpr int kImageSteps = 3;  // of models of images, which take their time

// Parameters and numbers made meanwhile are of this type.
class NumbersOf {
 public:
  explicit NumbersOf(at::ScalarType type) { Set(type); }
  ~NumbersOf() { Set(at::kFloat); }

 private:
  static void Set(at::ScalarType type) { c10::set_default_dtype(c10::scalarTypeToTypeMeta(type)); }
};

// Data for the small models: texts with padding, images, or numbers.
class SmallData final : public Dataset {
 public:
  explicit SmallData(const std::string& model) {
    const at::ScalarType type = c10::typeMetaToScalarType(c10::get_default_dtype());
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
    const bool tokens = model == "gpt" || model == "llama";
    if (tokens || model == "bert") {
      all_.inputs = at::randint(20, {kSize, 12}, generator, at::kLong);
      all_.attention_mask = at::ones({kSize, 12}, at::kLong);
      all_.attention_mask.slice(0, 1, kSize, 3).narrow(1, 5, 7).zero_();
    } else {
      all_.inputs = model == "mlp" ? Random({kSize, 48}, 8) : Random({kSize, 3, 32, 32}, 8);
      all_.inputs = all_.inputs.to(type);
    }
    all_.targets = tokens ? at::randint(20, {kSize, 12}, generator, at::kLong)
                          : at::randint(3, {kSize}, generator, at::kLong);
  }
  int64_t size() const override { return kSize; }
  Batch Get(std::span<const int64_t> indices) const override {
    const at::Tensor chosen = at::tensor(at::ArrayRef(indices.data(), indices.size()));
    Batch batch{.inputs = all_.inputs.index_select(0, chosen),
                .targets = all_.targets.index_select(0, chosen)};
    if (all_.attention_mask.defined()) {
      batch.attention_mask = all_.attention_mask.index_select(0, chosen);
    }
    batch.samples = static_cast<int64_t>(indices.size());
    batch.predictions = batch.targets.numel();
    return batch;
  }

 private:
  static constexpr int64_t kSize = 40;
  Batch all_;
};

Job PipelineJob(const std::string& model) {
  at::set_num_threads(1);  // the models are small
  Job job;
  job.config.strategy.type = StrategyType::kPipeline;
  job.config.optimizer.type = OptimizerType::kSgd;
  // Larger steps make rounding errors grow from step to step.
  job.config.optimizer.learning_rate = 0.02;
  job.config.optimizer.momentum = 0.5;
  job.model = SmallModels().at(model);
  if (model == "mlp") {
    job.model = MlpOptions{.sizes = {48, 7, 5, 6, 4, 3}, .activation = Activation::kGelu};
  }
  job.train = std::make_unique<SmallData>(model);
  return job;
}

// Returns a model with equal weights on every call. REQUIRES: no other thread draws.
std::shared_ptr<Model> FreshModel(const Job& job) {
  at::manual_seed(3);
  return MakeModel(job.model);
}

struct Learnt {
  std::vector<double> losses;
  std::vector<double> norms;
  double evaluated = 0;
  Weights weights;
};

// Steps over so many micro-batches of each data rank, then an evaluation. Norms are clipped.
Learnt TrainBy(const Job& job,
               const BuiltStrategy& built,
               const Mesh& mesh,
               int64_t micro_batches) {
  Learnt outcome;
  const auto sum = [&](double own) {
    const at::Tensor total = at::full({}, mesh.adds_to_sums() ? own : 0, at::kDouble);
    AllReduceOnHost(mesh.control.get(), total);
    return total.item<double>();
  };
  built.model->train();
  const bool images = std::holds_alternative<ResNetOptions>(job.model);
  const int steps = images ? kImageSteps : kPipelineSteps;
  for (int step = 0; step < steps; ++step) {
    const int64_t share = kGlobalBatch / mesh.data.size;
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < share; ++i) {
      indices.push_back((step * kGlobalBatch + mesh.data.rank * share + i) % job.train->size());
    }
    const std::vector<Batch> batches = SplitBatch(job.train->Get(indices), micro_batches);
    double own_loss = 0;
    const auto loss = [&](Model& model, const Batch& batch, size_t) {
      const double weight = static_cast<double>(batch.samples) / kGlobalBatch;
      const at::Tensor mean = model.Loss(batch);
      own_loss += mean.item<double>() * weight;
      return mean * (weight * mesh.data.size);
    };
    built.strategy->ForwardBackward({.step = step + 1,
                                     .learning_rate = job.config.optimizer.learning_rate,
                                     .micro_batches = batches,
                                     .loss = loss});
    outcome.norms.push_back(built.strategy->ClipGradients(1.0));
    built.strategy->Step();
    outcome.losses.push_back(sum(own_loss));
  }
  const at::NoGradGuard no_grad;
  built.strategy->BeforeEvaluation();
  built.model->eval();
  const std::vector<int64_t> all = {1, 2, 3, 4};
  const BatchEvaluation found =
      built.strategy->EvaluateBatch(*built.model, job.train->Get(all), true);
  EXPECT_EQ(found.outputs.defined(), mesh.adds_to_sums());
  outcome.evaluated = sum(mesh.adds_to_sums() ? found.loss.item<double>() / mesh.data.size : 0);
  for (const auto& item : built.model->State()) outcome.weights[item.key()] = item.value().clone();
  return outcome;
}

Learnt BySingle(const Job& job, int64_t micro_batches) {
  BuiltStrategy built{.model = FreshModel(job), .strategy = {}};
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const auto& item : built.model->named_parameters()) {
    named.emplace_back(item.key(), item.value());
  }
  built.strategy =
      MakeSingle(built.model, MakeOptimizer(OptimizerOptionsOf(job.config.optimizer),
                                            GroupByDecay(named, job.config.optimizer.no_decay,
                                                         job.config.optimizer.weight_decay)));
  return TrainBy(job, built, {}, micro_batches);
}

// Trains on all ranks, and collects the results of their stages.
Learnt OverRanks(Job& job, int stages, int ranks, int64_t micro_batches) {
  job.config.strategy.pipeline_parallel_size = stages;
  const ParallelDims dims = ValueOrThrow(ResolveDims(job.config, ranks));
  std::vector<Learnt> found(static_cast<size_t>(ranks));
  std::vector<std::shared_ptr<Model>> whole(static_cast<size_t>(ranks));
  for (std::shared_ptr<Model>& model : whole) model = FreshModel(job);
  WithGroup(ranks, [&](const auto& group, int rank) {
    at::set_num_threads(1);
    const Mesh mesh = MakeMesh(group, dims);
    const BuiltStrategy built = BuildPipeline({job, dims, mesh}, std::move(whole[rank]));
    found[rank] = TrainBy(job, built, mesh, micro_batches);
  });
  Learnt& all = found[0];
  for (const Learnt& one : found) {
    EXPECT_EQ(one.norms, all.norms);
    for (const auto& [name, tensor] : one.weights) {
      const auto known = all.weights.emplace(name, tensor).first;
      EXPECT_TRUE(known->second.equal(tensor)) << name << " differs between ranks";
    }
  }
  return all;
}

void ExpectEqual(const Learnt& found, const Learnt& expected, double tolerance) {
  ASSERT_EQ(found.losses.size(), expected.losses.size());
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(found.losses[i] / expected.losses[i], 1, tolerance) << "step " << i + 1;
    EXPECT_NEAR(found.norms[i] / expected.norms[i], 1, 10 * tolerance) << "step " << i + 1;
  }
  EXPECT_NEAR(found.evaluated / expected.evaluated, 1, tolerance);
  EXPECT_EQ(found.weights.size(), expected.weights.size());
  for (const auto& [name, tensor] : expected.weights) {
    const double difference =
        (found.weights.at(name) - tensor).to(at::kDouble).abs().max().item<double>();
    EXPECT_LT(difference, 10 * tolerance) << name;
  }
  EXPECT_NE(expected.losses.back(), expected.losses.front());
}

class PipelineTest : public testing::TestWithParam<const char*> {};

TEST_P(PipelineTest, OverRanksEqualsSingle) {
  for (const auto& [type, tolerance] : {std::pair(at::kDouble, 1e-10), {at::kFloat, 1e-5}}) {
    const NumbersOf scope(type);
    Job job = PipelineJob(GetParam());
    const Learnt expected = BySingle(job, 4);
    for (const auto schedule : {PipelineSchedule::kGpipe, PipelineSchedule::k1F1B}) {
      job.config.strategy.pipeline_schedule = schedule;
      for (const int stages : {2, 4}) {
        SCOPED_TRACE(std::to_string(stages) + " stages");
        ExpectEqual(OverRanks(job, stages, stages, 4), expected, tolerance);
      }
    }
  }
}

// Batch norms of two ranks see other batches than those of one.
class PipelineWithDataTest : public PipelineTest {};

TEST_P(PipelineWithDataTest, EqualsSingleOnAllSamples) {
  const NumbersOf scope(at::kDouble);
  Job job = PipelineJob(GetParam());
  ExpectEqual(OverRanks(job, 2, 4, 2), BySingle(job, 4), 1e-10);
}

TEST_P(PipelineTest, OverDevicesEqualsSingle) {
  const NumbersOf scope(at::kDouble);
  Job job = PipelineJob(GetParam());
  const Learnt expected = BySingle(job, 3);
  job.config.strategy.devices = {"cpu", "cpu", "cpu"};
  for (const auto type : {StrategyType::kModelParallel, StrategyType::kPipeline}) {
    job.config.strategy.type = type;
    const ParallelDims dims = ValueOrThrow(ResolveDims(job.config, 1));
    const BuiltStrategy built = BuildPipeline({job, dims, Mesh()}, FreshModel(job));
    ExpectEqual(TrainBy(job, built, {}, 3), expected, 1e-10);
  }
}

INSTANTIATE_TEST_SUITE_P(Each,
                         PipelineTest,
                         testing::Values("mlp", "bert", "gpt", "llama", "resnet18"));

INSTANTIATE_TEST_SUITE_P(Each,
                         PipelineWithDataTest,
                         testing::Values("mlp", "bert", "gpt", "llama", "cnn"));

TEST(Pipeline, RecomputesLayersOfItsStages) {
  const NumbersOf scope(at::kDouble);
  Job job = PipelineJob("gpt");
  const Learnt expected = BySingle(job, 4);
  job.config.training.gradient_checkpointing = true;
  ExpectEqual(OverRanks(job, 2, 2, 4), expected, 1e-10);
}

TEST(Pipeline, ARankHasItsStageAlone) {
  Job job = PipelineJob("gpt");
  job.config.strategy.layers_per_stage = {1, 2};
  std::vector<std::vector<std::string>> names(2);
  std::vector<std::shared_ptr<Model>> whole(2);
  for (std::shared_ptr<Model>& model : whole) model = FreshModel(job);
  WithGroup(2, [&](const auto& group, int rank) {
    const ParallelDims dims = ValueOrThrow(ResolveDims(job.config, 2));
    const Mesh mesh = MakeMesh(group, dims);
    const BuiltStrategy built = BuildPipeline({job, dims, mesh}, std::move(whole[rank]));
    for (const auto& item : built.model->named_parameters()) {
      const std::string& name = item.key();
      if (!name.starts_with("transformer.h.")) names[rank].push_back(name);
      EXPECT_EQ(name.starts_with("transformer.h.0."),
                rank == 0 && name.starts_with("transformer.h."));
    }
  });
  EXPECT_EQ(names[0],
            (std::vector<std::string>{"transformer.wte.weight", "transformer.wpe.weight"}));
  // The embedding again, which is the head's weight.
  EXPECT_EQ(names[1], (std::vector<std::string>{"transformer.wte.weight", "transformer.ln_f.weight",
                                                "transformer.ln_f.bias"}));
}

TEST(Pipeline, StagesHaveAboutAsMuchToCompute) {
  Job job = PipelineJob("gpt");
  auto& gpt = std::get<GptOptions>(job.model);
  gpt.num_hidden_layers = 8;
  // As much for the head as for two layers: 24 * 16 * 16 / 16 tokens' scores.
  gpt.vocab_size = 384;
  const auto counts = PartsOfStages(job, *FreshModel(job), 2);
  // Embedding and five layers; three layers, the norm and the head.
  EXPECT_EQ(counts, (std::vector<int64_t>{6, 5}));
}

std::string ErrorOf(const Job& job, int stages) {
  try {
    PartsOfStages(job, *MakeModelShape(job.model), stages);
  } catch (const Failure& failure) {
    return failure.error().title + ": " + failure.error().what + " " + failure.error().hint;
  }
  return "";
}

TEST(Pipeline, SaysWhichNumbersWouldDo) {
  Job job = PipelineJob("gpt");
  const std::string many = ErrorOf(job, 7);
  EXPECT_NE(many.find("The model has 6 parts, but there are 7 stages"), many.npos) << many;
  job.config.strategy.layers_per_stage = {1, 1};
  const std::string few = ErrorOf(job, 2);
  EXPECT_NE(few.find("strategy.layers_per_stage is [1, 1] for 2 stages; the model has 3 repeated "
                     "layers, 6 with"),
            few.npos)
      << few;
  job.config.strategy.layers_per_stage = {1, 5};
  EXPECT_EQ(ErrorOf(job, 2), "");
  job.config.strategy.layers_per_stage = {0, 3};
  EXPECT_EQ(ErrorOf(job, 2), "");
}

}  // namespace
}  // namespace ddprun::trainer
