// The memory that ZeRO saves, its checkpoints, and FullyShardedDataParallel for programs.
#include <gtest/gtest.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <set>

#include <ddprun/fully_sharded.h>
#include "base/failure.h"
#include "tests/trainer/load_state.h"
#include "tests/trainer/strategies/zero_fixture.h"
#include "trainer/compute/norm.h"

namespace ddprun::trainer {
namespace {

using Kind = ZeroCase::Kind;

constexpr int kMemoryRanks = 4;

Batch MlpBatch(int seed) {
  Batch batch{.inputs = Random({4, 256}, static_cast<uint64_t>(seed)),
              .targets = at::arange(4, at::kLong),
              .samples = 4};
  batch.predictions = 4;
  return batch;
}

std::shared_ptr<Model> MakeMlpModel(uint64_t seed) {
  const auto model =
      MakeModel(MlpOptions{.sizes = {256, 512, 512, 512, 256}, .activation = Activation::kGelu});
  const at::NoGradGuard no_grad;
  for (const at::Tensor& one : model->parameters()) one.copy_(Random(one.sizes(), seed).mul_(0.05));
  return model;
}

void TrainSteps(Strategy& strategy, int from, int to, int rank) {
  for (int step = from; step < to; ++step) {
    const std::vector<Batch> batches = {MlpBatch(10 * step + rank)};
    strategy.ForwardBackward(
        {.step = step + 1,
         .learning_rate = 0.01,
         .micro_batches = batches,
         .loss = [](Model& model, const Batch& batch, size_t) { return model.Loss(batch); }});
    strategy.ClipGradients(1);
    strategy.Step();
  }
}

// Returns the bytes of all storages of the strategy's tensors and, if `counts_parameters`, of the
// model's, each once.
int64_t LiveBytes(Strategy& strategy, const Model& model, bool counts_parameters) {
  std::map<const void*, int64_t> storages;
  const auto count = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const c10::Storage& storage = tensor.storage();
    storages[storage.unsafeGetStorageImpl()] = static_cast<int64_t>(storage.nbytes());
  };
  const StateDict state = strategy.State();
  for (const StateTensor& one : state.tensors) count(one.tensor);
  for (const at::Tensor& one : strategy.Gradients()) count(one);
  for (const at::Tensor& one : model.parameters()) {
    if (counts_parameters) count(one);
    count(one.grad());
  }
  int64_t sum = 0;
  for (const auto& [storage, bytes] : storages) sum += bytes;
  return sum;
}

TEST(ZeroMemory, IsWhatTheFormulaSays) {
  const double n = kMemoryRanks;
  const std::vector<std::pair<Kind, double>> cases = {{Kind::kDdp, 16},
                                                      {Kind::kZero1, 8 + 8 / n},
                                                      {Kind::kZero2, 4 + 12 / n},
                                                      {Kind::kZero3, 16 / n}};
  for (const auto& [kind, bytes] : cases) {
    WithGroup(kMemoryRanks, [&, kind = kind, bytes = bytes](const auto& group, int rank) {
      const auto model = MakeMlpModel(1);
      const double parameters = static_cast<double>(ParameterCount(*model));
      const auto strategy =
          StrategyOf({.kind = kind, .data_parallel = {}}, model, group, MlpBatch(0));
      TrainSteps(*strategy, 0, 3, rank);
      // In zero3 the parameters are the ranks' parts, in place.
      const bool own_parameters = kind != Kind::kZero3;
      const double found =
          static_cast<double>(LiveBytes(*strategy, *model, own_parameters)) / parameters;
      // Parts are whole blocks of 4096 elements: of these small layers some ranks have some percent
      // more, others less.
      EXPECT_GT(found, bytes * 0.9);
      EXPECT_LT(found, bytes * 1.1);
    });
  }
}

TEST(ZeroMemory, OfOtherRanksParametersIsThereWhileTheyAreUsed) {
  WithGroup(kMemoryRanks, [&](const auto& group, int rank) {
    const auto model = MakeMlpModel(1);
    const auto strategy =
        StrategyOf({.kind = Kind::kZero3, .data_parallel = {}}, model, Copying(group), MlpBatch(0));
    TrainSteps(*strategy, 0, 3, rank);
    for (const at::Tensor& one : model->parameters()) EXPECT_EQ(one.storage().nbytes(), 0U);
  });
}

TEST(ZeroState, GoesOnWithTheSameBits) {
  for (const Kind kind : {Kind::kZero1, Kind::kZero2, Kind::kZero3}) {
    WithGroup(2, [&](const auto& group, int rank) {
      const auto make = [&](const std::shared_ptr<Model>& model) {
        return StrategyOf({.kind = kind, .data_parallel = {}}, model, group, MlpBatch(0));
      };
      const auto first = MakeMlpModel(1);
      const auto whole = make(first);
      TrainSteps(*whole, 0, 2, rank);
      const StateDict saved = CopyOf(whole->State());
      TrainSteps(*whole, 2, 4, rank);
      const auto second = MakeMlpModel(2);
      const auto again = make(second);
      LoadState(saved, NamesOf(*again));
      TrainSteps(*again, 2, 4, rank);
      const StateDict expected = whole->State();
      const StateDict found = again->State();
      ASSERT_EQ(found.tensors.size(), expected.tensors.size());
      for (size_t i = 0; i < found.tensors.size(); ++i) {
        EXPECT_TRUE(at::equal(found.tensors[i].tensor, expected.tensors[i].tensor))
            << found.tensors[i].name;
      }
    });
  }
}

struct LayerOfTest : torch::nn::Module {
  explicit LayerOfTest(int64_t width) {
    linear = register_module("linear", torch::nn::Linear(width, width));
  }
  at::Tensor forward(const at::Tensor& x) { return x + at::tanh(linear(x)); }
  torch::nn::Linear linear = nullptr;
};

struct NetOfTest : torch::nn::Module {
  NetOfTest() {
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < 3; ++i) layers->push_back(std::make_shared<LayerOfTest>(80));
    head = register_module("head", torch::nn::Linear(80, 3));
    const at::NoGradGuard no_grad;
    for (const at::Tensor& one : parameters()) one.copy_(Random(one.sizes(), 3).mul_(0.1));
    to(at::kDouble);
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) x = run_block(*layer->as<LayerOfTest>(), x);
    return head(x);
  }
  torch::nn::ModuleList layers = nullptr;
  torch::nn::Linear head = nullptr;
};

// Two micro-batches a step, of every rank in turn where one process does it all.
template <typename Net, typename Clip>
void TrainNet(Net& net, torch::optim::Optimizer& optimizer, int first, int last, const Clip& clip) {
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    for (int micro = 0; micro < 2; ++micro) {
      for (int rank = first; rank < last; ++rank) {
        const auto seed = static_cast<uint64_t>(100 * step + 10 * micro + rank);
        const at::Tensor output = net.forward(Random({5, 80}, seed).to(at::kDouble));
        (output.pow(2).sum() / (last - first)).backward();
      }
    }
    clip();
    optimizer.step();
  }
}

TEST(FullyShardedDataParallel, TrainsAsOneProcessDoes) {
  for (const int ranks : {1, 2, 3}) {
    const auto alone = std::make_shared<NetOfTest>();
    torch::optim::AdamW plain(alone->parameters(), torch::optim::AdamWOptions(0.003));
    std::vector<double> norms;
    TrainNet(*alone, plain, 0, ranks, [&] {
      const std::vector<at::Tensor> gradients = GradientsOf(alone->parameters());
      norms.push_back(std::sqrt(SquaresOf(gradients)));
      ClipTo(0.1, norms.back(), gradients);
    });
    WithGroup(ranks, [&](const auto& group, int rank) {
      FullyShardedDataParallel<NetOfTest> net(std::make_shared<NetOfTest>(), group);
      torch::optim::AdamW optimizer(net.parameters(), torch::optim::AdamWOptions(0.003));
      size_t step = 0;
      TrainNet(net, optimizer, rank, rank + 1, [&] {
        EXPECT_NEAR(net.clip_grad_norm(0.1), norms[step], 1e-10 * norms[step]);
        ++step;
      });
      net.with_whole_parameters([&] {
        const std::vector<at::Tensor> found = net.module().parameters();
        const std::vector<at::Tensor> expected = alone->parameters();
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-10, 1e-10)) << i;
        }
      });
    });
  }
}

TEST(FullyShardedDataParallel, LeavesEmptyParameters) {
  WithGroup(2, [](const auto& group, int) {
    const auto module = std::make_shared<NetOfTest>();
    { const FullyShardedDataParallel<NetOfTest> net(module, group); }
    for (const at::Tensor& parameter : module->parameters()) EXPECT_EQ(parameter.numel(), 0);
    EXPECT_THROW(module->forward(at::ones({5, 80}, at::kDouble)), c10::Error);
  });
}

TEST(FullyShardedDataParallel, NamesABlockThatTheModelDoesNotHave) {
  WithGroup(1, [](const auto& group, int) {
    try {
      FullyShardedDataParallel<NetOfTest> net(std::make_shared<NetOfTest>(), group,
                                              {.blocks = {"layers.7"}});
      FAIL();
    } catch (const Failure& failure) {
      EXPECT_NE(Render(failure.error()).find("\"layers.7\""), std::string::npos);
    }
  });
}

}  // namespace
}  // namespace ddprun::trainer
