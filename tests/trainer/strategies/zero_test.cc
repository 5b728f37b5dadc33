// Shared state: the losses and parameters of one process, the bits of ddp, and less memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <span>

#include "base/failure.h"
#include "tests/base/sanitized.h"
#include "tests/trainer/strategies/zero_fixture.h"
#include "trainer/parallel/whole_state.h"

namespace ddprun::trainer {
namespace {

using Kind = ZeroCase::Kind;
using Models = std::function<std::shared_ptr<Model>()>;
using Batches = std::function<Batch(int seed)>;

constexpr int kZeroMicroBatches = 2;
constexpr int kZeroSteps = kSanitized ? 6 : 20;

struct ZeroRun {
  std::vector<double> losses;  // of this rank's samples
  std::vector<double> norms;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> buffers;
};

struct Subject {
  Models make;
  Batches batch;
  std::vector<at::Tensor> first;  // the parameters of rank 0, or one process, to begin with
};

Subject TiedSubject() {
  Subject subject{.make = [] { return std::make_shared<TiedModel>(); },
                  .batch =
                      [](int seed) {
                        const auto generator =
                            at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
                        Batch batch{.inputs = at::randint(40, {6}, generator, at::kLong),
                                    .targets = at::randint(40, {6}, generator, at::kLong)};
                        batch.samples = batch.predictions = 6;
                        return batch;
                      },
                  .first = {}};
  const auto model = subject.make();
  for (const at::Tensor& one : model->parameters()) {
    subject.first.push_back(Random(one.sizes(), 7).to(at::kDouble).mul_(0.1));
  }
  return subject;
}

Subject BuiltIn(const std::string& name) {
  const TransformerOptions sizes{.vocab_size = 200,
                                 .max_position_embeddings = 16,
                                 .hidden_size = 64,
                                 .num_hidden_layers = 3,
                                 .num_attention_heads = 2,
                                 .intermediate_size = 256};
  BertOptions bert{sizes};
  bert.num_labels = 3;
  const std::map<std::string, ModelOptions> options = {
      {"gpt", GptOptions{sizes}},
      {"llama", LlamaOptions{sizes}},
      {"bert", bert},
      {"mlp", MlpOptions{.sizes = {48, 130, 70, 3}, .activation = Activation::kGelu}}};
  Subject subject;
  subject.make = [chosen = options.at(name)] { return MakeModel(chosen); };
  subject.batch = [name](int seed) {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
    const auto ids = [&](int64_t below, at::IntArrayRef shape) {
      return at::randint(below, shape, generator, at::kLong);
    };
    Batch batch{.inputs = ids(200, {4, 12}), .targets = ids(3, {4}), .samples = 4};
    if (name == "mlp") batch.inputs = at::randn({4, 48}, generator);
    if (name == "gpt" || name == "llama") batch.targets = ids(200, {4, 12});
    if (name != "mlp") batch.attention_mask = at::ones({4, 12}, at::kLong);
    batch.predictions = batch.targets.numel();
    return batch;
  };
  at::manual_seed(4);
  for (const at::Tensor& one : MakeModel(options.at(name))->parameters()) {
    subject.first.push_back(one.detach().clone());
  }
  return subject;
}

// Trains this rank, or all ranks' samples if `variant` is a single process.
ZeroRun Train(
    const ZeroCase& variant, const Subject& subject, const Mesh& mesh, int of_ranks, int steps) {
  at::set_num_threads(1);  // ranks are threads already
  const auto model = subject.make();
  model->train();
  {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> parameters = model->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      // The others' do not count.
      if (mesh.world.rank == 0) parameters[i].copy_(subject.first[i]);
      if (mesh.world.rank != 0) parameters[i].fill_(mesh.world.rank);
    }
  }
  const auto strategy = StrategyOf(variant, model, mesh, subject.batch(0));
  const int own = variant.kind == Kind::kSingle ? of_ranks : 1;
  ZeroRun run;
  for (int step = 0; step < steps; ++step) {
    std::vector<Batch> batches;
    for (int i = 0; i < own * kZeroMicroBatches; ++i) {
      batches.push_back(subject.batch(1 + (step * kZeroMicroBatches + i / own) * of_ranks +
                                      mesh.data.rank + i % own));
    }
    double sum = 0;
    const auto loss = [&](Model& m, const Batch& batch, size_t) {
      const at::Tensor one = m.Loss(batch) / (own * kZeroMicroBatches);
      sum += one.item<double>();
      return one;
    };
    strategy->ForwardBackward({.step = step + 1,
                               .learning_rate = 0.002 * (step % 4 + 1),
                               .micro_batches = batches,
                               .loss = loss});
    if (variant.max_norm > 0) run.norms.push_back(strategy->ClipGradients(variant.max_norm));
    strategy->Step();
    run.losses.push_back(sum);
  }
  strategy->Finish();
  std::map<std::string, at::Tensor> whole;
  if (!strategy->holds_whole_model()) {
    GatherWhole(
        strategy->State(), "model.", mesh.control.get(),
        [&](const std::string& name, const at::Tensor& tensor) { whole[name] = tensor.clone(); });
    if (mesh.world.rank != 0) return run;
  }
  for (const auto& one : model->named_parameters()) {
    const bool here = strategy->holds_whole_model();
    run.parameters.push_back(here ? one.value().detach().clone() : whole.at("model." + one.key()));
  }
  for (const at::Tensor& one : model->buffers()) run.buffers.push_back(one.clone());
  return run;
}

// Returns the runs of all ranks.
std::vector<ZeroRun> TrainRanks(const ZeroCase& variant, const Subject& subject, int steps) {
  std::vector<ZeroRun> runs(static_cast<size_t>(variant.ranks));
  WithGroup(variant.ranks, [&](const auto& group, int rank) {
    const Mesh made = MakeMesh(group, {.shard = variant.shard});
    const Mesh mesh = variant.copies ? Copying(made) : made;
    runs[static_cast<size_t>(rank)] = Train(variant, subject, mesh, variant.ranks, steps);
  });
  return runs;
}

void ExpectClose(const std::vector<ZeroRun>& runs,
                 const ZeroRun& single,
                 double tolerance,
                 bool parameters) {
  for (size_t step = 0; step < single.losses.size(); ++step) {
    double mean = 0;
    for (const ZeroRun& run : runs) mean += run.losses[step] / static_cast<double>(runs.size());
    ASSERT_NEAR(mean, single.losses[step], tolerance * single.losses[step]) << "step " << step;
  }
  for (size_t i = 0; i < single.parameters.size() && parameters; ++i) {
    const at::Tensor& expected = single.parameters[i];
    for (const ZeroRun& run : runs) {
      if (run.parameters.empty()) continue;  // rank 0 alone has gathered them
      ASSERT_TRUE(at::allclose(run.parameters[i], expected, tolerance, tolerance)) << i;
    }
  }
}

const OptimizerOptions kAdam = {.kind = OptimizerType::kAdamW};
const OptimizerOptions kMomentum = {.kind = OptimizerType::kSgd, .momentum = 0.9};
const OptimizerOptions kAdagrad = {.kind = OptimizerType::kAdagrad, .eps = 1e-10};
const OptimizerOptions kLion = {.kind = OptimizerType::kLion};

TEST(Zero1, HasTheBitsOfDdp) {
  for (const Subject& subject : {TiedSubject(), BuiltIn("gpt")}) {
    for (const OptimizerOptions& optimizer : {kAdam, kMomentum, kAdagrad, kLion}) {
      for (const auto& [ranks, shard] : {std::pair(1, 0), {2, 0}, {3, 0}, {4, 2}, {2, 1}}) {
        ZeroCase variant{.kind = Kind::kDdp, .ranks = ranks, .optimizer = optimizer};
        const std::vector<ZeroRun> expected = TrainRanks(variant, subject, 5);
        variant.kind = Kind::kZero1;
        variant.shard = shard;
        const std::vector<ZeroRun> found = TrainRanks(variant, subject, 5);
        for (size_t rank = 0; rank < found.size(); ++rank) {
          EXPECT_EQ(found[rank].losses, expected[rank].losses);
          EXPECT_EQ(found[rank].norms, expected[rank].norms);
          for (size_t i = 0; i < found[rank].parameters.size(); ++i) {
            ASSERT_TRUE(at::equal(found[rank].parameters[i], expected[rank].parameters[i]))
                << ranks << " ranks, parameter " << i;
            ASSERT_FALSE(at::equal(found[rank].parameters[i], subject.first[i]));
          }
        }
      }
    }
  }
}

struct Shape {
  Kind kind;
  int ranks;
  int shard = 0;
  bool copies = false;
};

class Zero : public testing::TestWithParam<Shape> {};

TEST(Zero1, HasTheBitsOfDdpWithAHook) {
  const Subject subject = TiedSubject();
  const auto train = [&](Kind kind) {
    ZeroCase variant{.kind = kind, .ranks = 2, .optimizer = kAdam};
    std::vector<ZeroRun> runs(2);
    WithGroup(2, [&](const auto& group, int rank) {
      ZeroCase own = variant;
      own.data_parallel.sync.reducer.comm_hook = MakeCompressHook(at::kBFloat16);
      runs[static_cast<size_t>(rank)] = Train(own, subject, group, 2, 3);
    });
    return runs[1].parameters;
  };
  const auto expected = train(Kind::kDdp);
  const auto found = train(Kind::kZero1);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[i])) << i;
}

TEST_P(Zero, TrainsAsOneProcessDoes) {
  const Subject subject = TiedSubject();
  const std::vector<OptimizerOptions> optimizers = {kAdam, kMomentum, kAdagrad};
  for (const OptimizerOptions& optimizer : std::span(optimizers).first(kSanitized ? 1 : 3)) {
    for (const bool recompute : {false, true}) {
      const auto& [kind, ranks, shard, copies] = GetParam();
      const ZeroCase variant{.kind = kind,
                             .ranks = ranks,
                             .shard = shard,
                             .optimizer = optimizer,
                             .recompute = recompute,
                             .copies = copies};
      ZeroCase alone = variant;
      alone.kind = Kind::kSingle;
      const ZeroRun single = Train(alone, subject, {}, ranks, kZeroSteps);
      const std::vector<ZeroRun> runs = TrainRanks(variant, subject, kZeroSteps);
      ExpectClose(runs, single, 1e-10, true);
      for (size_t step = 0; step < single.norms.size(); ++step) {
        EXPECT_NEAR(runs[0].norms[step], single.norms[step], 1e-10 * single.norms[step]);
      }
    }
  }
}

TEST_P(Zero, TrainsEveryModel) {
  const std::vector<std::string> names = {"llama", "mlp", "bert", "gpt"};
  for (const std::string& name : std::span(names).first(kSanitized ? 1 : 4)) {
    const Subject subject = BuiltIn(name);
    const auto& [kind, ranks, shard, copies] = GetParam();
    const ZeroCase variant{
        .kind = kind, .ranks = ranks, .shard = shard, .optimizer = kAdam, .copies = copies};
    ZeroCase alone = variant;
    alone.kind = Kind::kSingle;
    ExpectClose(TrainRanks(variant, subject, kZeroSteps),
                Train(alone, subject, {}, ranks, kZeroSteps), 1e-5, false);
  }
}

std::string NameOf(const testing::TestParamInfo<Shape>& info) {
  const auto& [kind, ranks, shard, copies] = info.param;
  return "Stage" + std::to_string(static_cast<int>(kind) - 1) + "On" + std::to_string(ranks) +
         (shard > 0 ? "By" + std::to_string(shard) : "") + (copies ? "Copying" : "");
}

INSTANTIATE_TEST_SUITE_P(Shapes,
                         Zero,
                         testing::Values(Shape{Kind::kZero1, 2},
                                         Shape{Kind::kZero2, 1},
                                         Shape{Kind::kZero2, 2},
                                         Shape{Kind::kZero2, 4},
                                         Shape{Kind::kZero2, 4, 2},
                                         Shape{Kind::kZero3, 1},
                                         Shape{Kind::kZero3, 2},
                                         Shape{Kind::kZero3, 4},
                                         Shape{Kind::kZero3, 4, 2},
                                         Shape{Kind::kZero3, 2, 0, true},
                                         Shape{Kind::kZero3, 4, 2, true}),
                         NameOf);

}  // namespace
}  // namespace ddprun::trainer
