// Models whose layers the ranks share out, trained beside the same models in one process.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>

#include "tests/base/sanitized.h"
#include "tests/trainer/compute/largest_difference.h"
#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/compute/recompute.h"
#include "trainer/models/registry.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/parallel/tensor_parallel.h"
#include "trainer/strategies/ddp.h"
#include "trainer/strategies/single.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {
namespace {

using Tensors = std::vector<at::Tensor>;
constexpr int kSteps = kSanitized ? 6 : 20;
constexpr int64_t kTexts = 4, kLength = 12, kVocabulary = 21;  // does not divide by 2 or 4

std::map<std::string, ModelOptions> Models() {
  const TransformerOptions sizes{.vocab_size = kVocabulary,
                                 .max_position_embeddings = kLength,
                                 .hidden_size = 16,
                                 .num_hidden_layers = 2,
                                 .num_attention_heads = 4,
                                 .intermediate_size = 22};
  GptOptions untied{sizes};
  untied.tie_word_embeddings = false;
  BertOptions bert{sizes};
  bert.num_labels = 3;
  LlamaOptions llama{sizes};
  llama.attention_bias = llama.mlp_bias = true;
  llama.pad_token_id = 20;
  LlamaOptions grouped{sizes};
  grouped.num_attention_heads = 8;
  grouped.num_key_value_heads = 4;
  return {{"gpt", GptOptions{sizes}},
          {"gpt, untied", untied},
          {"bert", bert},
          {"llama", llama},
          {"llama, grouped", grouped},
          {"mlp", MlpOptions{.sizes = {12, 9, 8, 7}, .activation = Activation::kGelu}},
          {"mlp, even", MlpOptions{.sizes = {12, 10, 5}}},
          {"linear", MlpOptions{.sizes = {12, 3}}}};
}

// Returns a rank's batch of a step that `ranks` ranks of the data axis share.
Batch BatchOf(const std::string& name, const Model& model, int step, int rank, int ranks) {
  const auto seed = static_cast<uint64_t>(100 + step);
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  Batch batch;
  batch.samples = kTexts / ranks;
  const auto own = [&](const at::Tensor& all) {
    return all.narrow(0, rank * batch.samples, batch.samples);
  };
  if (name.starts_with("mlp") || name == "linear") {
    const at::ScalarType type = model.parameters().front().scalar_type();
    batch.inputs = own(at::randn({kTexts, 12}, generator)).to(type);
    batch.targets = own(at::randint(3, {kTexts}, generator, at::kLong));
  } else {
    batch.inputs = own(at::randint(kVocabulary, {kTexts, kLength}, generator, at::kLong));
    const bool bert = name == "bert";
    batch.targets =
        bert ? own(at::randint(3, {kTexts}, generator, at::kLong)) : batch.inputs.roll(-1, 1);
    at::Tensor mask = at::ones({kTexts, kLength}, at::kLong);
    for (int64_t text = 0; text < kTexts; ++text) mask[text].narrow(0, 9, 3).zero_();
    batch.attention_mask = own(mask);
    if (!bert) batch.targets = batch.targets.masked_fill(batch.attention_mask == 0, -100);
  }
  batch.predictions = batch.targets.ne(-100).sum().item<int64_t>();
  return batch;
}

struct Way {
  at::ScalarType type = at::kDouble;
  double smoothing = 0;
  bool recomputes = false;
};

std::shared_ptr<Model> ModelFor(const ModelOptions& options, const Way& way) {
  auto model = MakeModel(options, {.label_smoothing = way.smoothing}, /*initialize=*/false);
  model->to(way.type);
  model->train();
  if (way.recomputes) RecomputeBlocks(*model);
  return model;
}

std::shared_ptr<Model> Whole(const ModelOptions& options, const Way& way) {
  auto model = ModelFor(options, way);
  const at::NoGradGuard no_grad;
  uint64_t seed = 1;
  for (const at::Tensor& tensor : model->parameters()) {
    tensor.copy_(Random(tensor.sizes(), seed++).mul_(0.3).add_(0.1));
  }
  return model;
}

struct Run {
  std::vector<double> losses;  // of each step, then that of an evaluation
  std::vector<double> norms;
  at::Tensor outputs;
};

std::unique_ptr<Strategy> StrategyFor(const std::shared_ptr<Model>& model, const Mesh& mesh) {
  ParameterGroup group{.parameters = {}, .weight_decay = 0.1};
  for (const auto& item : model->named_parameters()) {
    group.parameters.push_back(item.value());
    group.names.push_back(item.key());
    group.placements.push_back(model->PlacementOf(item.key()));
  }
  auto optimizer = MakeOptimizer({.kind = OptimizerType::kAdamW}, {group});
  if (mesh.data.size == 1) return MakeSingle(model, std::move(optimizer), mesh);
  return MakeDistributedDataParallel(model, std::move(optimizer), mesh, {});
}

Run Train(const std::string& name, const std::shared_ptr<Model>& model, const Mesh& mesh) {
  const auto strategy = StrategyFor(model, mesh);
  Run run;
  const auto mean = [&](const at::Tensor& own) {
    const at::Tensor sum = own.detach().to(at::kDouble).clone();
    AllReduceOnHost(mesh.data.group.get(), sum);
    return sum.item<double>() / mesh.data.size;
  };
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<Batch> batches = {
        BatchOf(name, *model, step, mesh.data.rank, mesh.data.size)};
    at::Tensor last;
    strategy->ForwardBackward(
        {.learning_rate = 0.01,
         .micro_batches = batches,
         .loss = [&](Model& own, const Batch& batch, size_t) { return last = own.Loss(batch); }});
    run.losses.push_back(mean(last));
    run.norms.push_back(strategy->ClipGradients(0.5));
    strategy->Step();
  }
  const at::NoGradGuard no_grad;
  model->eval();
  const Batch batch = BatchOf(name, *model, kSteps, mesh.data.rank, mesh.data.size);
  const BatchEvaluation found = strategy->EvaluateBatch(*model, batch, /*with_outputs=*/true);
  run.losses.push_back(mean(found.loss));
  run.losses.push_back(mean(model->Loss(batch)));
  run.outputs = found.outputs;
  return run;
}

// The ranks of the tensor axis have the same bits of what is not split.
void ExpectSameOnAllTensorRanks(const Model& model, const Mesh& mesh) {
  for (const auto& item : model.named_parameters()) {
    const StatePlacement placement = model.PlacementOf(item.key());
    if (placement.empty() || !placement.front().slice.global_shape.empty()) continue;
    Tensors first = {item.value().detach().clone()};
    mesh.tensor.group->broadcast(first, c10d::BroadcastOptions{})->wait();
    EXPECT_TRUE(first[0].equal(item.value())) << item.key();
  }
}

void ExpectThoseOfOneProcess(const std::string& name, const Way& way, double tolerance) {
  SCOPED_TRACE(name);
  const ModelOptions options = Models().at(name);
  const auto whole = Whole(options, way);
  const auto trained = Whole(options, way);
  const Run expected = Train(name, trained, {});
  ASSERT_TRUE(kSanitized || expected.losses[kSteps - 1] < expected.losses[0]);  // in 20 steps
  const auto near = [&](const std::vector<double>& found, const std::vector<double>& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(found[i] / wanted[i], 1, tolerance) << "step " << i;
    }
  };
  std::mutex making;  // the scope is the thread's, but the generator is shared
  for (const auto& [ranks, tensor] : {std::pair(1, 1), {2, 2}, {4, 4}, {4, 2}}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks, of which share a model " +
                 std::to_string(tensor));
    WithGroup(ranks, [&, tensor = tensor](const auto& group, int) {
      const Mesh mesh = MakeMesh(group, {.tensor = tensor});
      std::shared_ptr<Model> model;
      {
        const std::lock_guard lock(making);
        const SplitLayersScope scope(tensor == 1 ? nullptr : MakeTensorAxis(mesh.tensor));
        model = ModelFor(options, way);
      }
      CopyState(*whole, *model);
      const Run run = Train(name, model, mesh);
      near(run.losses, expected.losses);
      near(run.norms, expected.norms);
      const int64_t rows = expected.outputs.size(0) / mesh.data.size;
      const at::Tensor own = expected.outputs.narrow(0, mesh.data.rank * rows, rows);
      EXPECT_LT(LargestDifference(run.outputs, own), 100 * tolerance);
      ExpectSameOnAllTensorRanks(*model, mesh);
      // Adam blows up what is but rounding, as the gradients of the keys' biases.
      if (way.type != at::kDouble) return;
      Tensors own_trained;
      for (const at::Tensor& one : model->parameters()) own_trained.push_back(one.detach().clone());
      CopyState(*trained, *model);  // the parts that it should have
      const Tensors wanted = model->parameters();
      for (size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_LT(LargestDifference(own_trained[i], wanted[i]), 100 * tolerance) << i;
      }
    });
  }
}

class TensorParallelModels : public testing::TestWithParam<const char*> {};

TEST_P(TensorParallelModels, TrainAsOneProcessDoes) {
  ExpectThoseOfOneProcess(GetParam(), {}, 1e-10);
}

TEST_P(TensorParallelModels, TrainInSinglePrecision) {
  ExpectThoseOfOneProcess(GetParam(), {.type = at::kFloat}, 1e-5);
}

TEST_P(TensorParallelModels, TrainWithSmoothedLabelsAndBlocksComputedTwice) {
  ExpectThoseOfOneProcess(GetParam(), {.smoothing = 0.1, .recomputes = true}, 1e-10);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    TensorParallelModels,
    testing::Values(
        "mlp", "mlp, even", "linear", "bert", "gpt", "gpt, untied", "llama", "llama, grouped"),
    [](const auto& one) {
      std::string name = one.param;
      std::erase_if(name, [](char c) { return c == ' ' || c == ','; });
      return name;
    });

}  // namespace
}  // namespace ddprun::trainer
