#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <ddprun/data_parallel.h>
#include "base/failure.h"
#include "tests/trainer/parallel/reducer_fixture.h"

namespace ddprun {
namespace {

using trainer::Random;
using trainer::WithGroup;

struct Net : torch::nn::Module {
  Net() {
    // Ranks are threads here, so a module's own random values would depend on their order.
    const at::NoGradGuard no_grad;
    uint64_t seed = 1;
    for (at::Tensor& parameter : parameters()) parameter.copy_(Random(parameter.sizes(), seed++));
  }
  at::Tensor forward(const at::Tensor& x) { return second(at::tanh(first(x))); }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 20));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(20, 3));
};

at::Tensor Batch(int rank, int step) {
  return Random({8, 6}, static_cast<uint64_t>(100 + rank * 50 + step));
}

at::Tensor Loss(const at::Tensor& output) {
  return output.pow(2).mean();
}

// One process on the batches of all ranks, `steps` of them; a rank's batch counts only while it
// has one.
std::vector<at::Tensor> TrainAlone(const std::vector<int>& steps_of_rank) {
  Net net;
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < *std::max_element(steps_of_rank.begin(), steps_of_rank.end()); ++step) {
    optimizer.zero_grad();
    at::Tensor loss = at::zeros({});
    for (size_t rank = 0; rank < steps_of_rank.size(); ++rank) {
      if (step >= steps_of_rank[rank]) continue;
      loss = loss + Loss(net.forward(Batch(static_cast<int>(rank), step)));
    }
    (loss / static_cast<int64_t>(steps_of_rank.size())).backward();
    optimizer.step();
  }
  return net.parameters();
}

void ExpectClose(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(at::allclose(actual[i], expected[i], 1e-4, 1e-6)) << "parameter " << i;
  }
}

class WorldSizes : public testing::TestWithParam<int> {};

TEST_P(WorldSizes, TrainsWithAnOptimizerOfTorchAsOneProcessDoes) {
  const int size = GetParam();
  const auto expected = TrainAlone(std::vector<int>(static_cast<size_t>(size), 5));
  WithGroup(size, [&](const auto& group, int rank) {
    auto net = std::make_shared<Net>();
    if (rank > 0) {
      const at::NoGradGuard no_grad;
      net->first->weight.zero_();  // rank 0's values count
    }
    DistributedDataParallel<Net> ddp(net, group, {.bucket_cap_mb = 0.0001});
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < 5; ++step) {
      // Both habits: gradients dropped, and gradients set to zero.
      optimizer.zero_grad(/*set_to_none=*/step % 2 == 0);
      Loss(ddp(Batch(rank, step))).backward();
      optimizer.step();
    }
    ExpectClose(net->parameters(), expected);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, WorldSizes, testing::Values(1, 2, 3, 4, 8));

TEST(DistributedDataParallel, AddsUpLocallyWithoutSync) {
  WithGroup(2, [](const auto& group, int rank) {
    auto net = std::make_shared<Net>();
    DistributedDataParallel<Net> ddp(net, group);
    for (int round = 0; round < 2; ++round) {
      net->zero_grad();
      {
        const auto no_sync = ddp.no_sync();
        Loss(ddp(Batch(rank, 0))).backward();
      }
      Loss(ddp(Batch(rank, 1))).backward();
      Net alone;
      at::Tensor loss = at::zeros({});
      for (int r = 0; r < 2; ++r) {
        for (int step = 0; step < 2; ++step) loss = loss + Loss(alone.forward(Batch(r, step)));
      }
      (loss / 2).backward();
      EXPECT_TRUE(at::allclose(net->first->weight.grad(), alone.first->weight.grad(), 1e-4, 1e-6));
    }
  });
}

// Runs `step` on two ranks; the message of the Failure that it has to end in.
template <typename Step>
void ExpectFailure(const std::string& text, const Step& step) {
  WithGroup(2, [&](const auto& group, int rank) {
    auto net = std::make_shared<Net>();
    DistributedDataParallel<Net> ddp(net, group);
    try {
      step(ddp, Batch(rank, 0));
      ADD_FAILURE() << "no failure";
    } catch (const Failure& failure) {
      EXPECT_NE(Render(failure.error()).find(text), std::string::npos) << Render(failure.error());
    }
  });
}

TEST(DistributedDataParallel, RefusesGradientsThatItWouldNotAverage) {
  ExpectFailure("would not be averaged", [](auto& ddp, const at::Tensor& batch) {
    Loss(ddp.module().forward(batch)).backward();
  });
  ExpectFailure("would not be averaged", [](auto& ddp, const at::Tensor& batch) {
    const at::Tensor output = ddp(batch);
    Loss(output).backward({}, /*retain_graph=*/true);
    Loss(output).backward();
  });
}

// Two parameters; forward returns the loss of one of them, and keeps that of the other.
struct Branches : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x, bool first) {
    kept = (x * (first ? b : a)).sum();
    return (x * (first ? a : b)).sum();
  }
  at::Tensor a = register_parameter("a", at::ones({4}));
  at::Tensor b = register_parameter("b", at::ones({4}));
  at::Tensor kept;
};

void ExpectRefused(const at::Tensor& loss, const char* parameter) {
  try {
    loss.backward();
    ADD_FAILURE() << "a gradient that was not averaged";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().what.find(parameter), 0U) << failure.error().what;
  }
}

// Those ranks would go on with different gradients.
TEST(DistributedDataParallel, RefusesAGradientOfAParameterThatCountedAsUnused) {
  WithGroup(2, [](const auto& group, int rank) {
    const at::Tensor x = at::full({4}, rank + 1.0);
    for (const double bucket_mb : {1e-6, 25.0}) {
      const DistributedDataParallelOptions options{
          .bucket_cap_mb = bucket_mb, .first_bucket_mb = bucket_mb, .find_unused_parameters = true};
      DistributedDataParallel<Branches> net(std::make_shared<Branches>(), group, options);
      const at::Tensor returned = net(x, true);
      ExpectRefused(returned + net.module().kept, "b");
      const at::Tensor one = net(x, true);
      ExpectRefused(one + net(x, false), "a");
      const at::Tensor unused = net(x, true);
      net(x, false);
      ExpectRefused(unused, "a");
    }
  });
}

TEST(DistributedDataParallel, RefusesAGradientThatAStaticGraphDidNotHave) {
  WithGroup(2, [](const auto& group, int rank) {
    const at::Tensor x = at::full({4}, rank + 1.0);
    const DistributedDataParallelOptions options{.static_graph = true};
    DistributedDataParallel<Branches> net(std::make_shared<Branches>(), group, options);
    net(x, true).backward();
    const at::Tensor returned = net(x, true);
    ExpectRefused(returned + net.module().kept, "b");
  });
}

TEST(DistributedDataParallel, RefusesAModelThatHasChangedSinceItWasWrapped) {
  ExpectFailure("first.weight is Double [20, 6] on cpu; it was Float [20, 6] on cpu",
                [](auto& ddp, const at::Tensor& batch) {
                  ddp.module().to(at::kDouble);
                  ddp(batch.to(at::kDouble));
                });
}

TEST(DistributedDataParallel, SaysThatAProcessGroupIsMissing) {
  const c10::intrusive_ptr<HostProcessGroup> none;
  EXPECT_THROW(DistributedDataParallel<Net>(std::make_shared<Net>(), none), Failure);
}

TEST(DistributedDataParallel, JoinsRanksWithUnequalNumbersOfBatches) {
  const std::vector<int> steps = {2, 5, 3};
  const auto expected = TrainAlone(steps);
  WithGroup(3, [&](const auto& group, int rank) {
    auto net = std::make_shared<Net>();
    DistributedDataParallel<Net> ddp(net, group, {.bucket_cap_mb = 0.0001});
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    ddp.join([&] {
      for (int step = 0; step < steps[static_cast<size_t>(rank)]; ++step) {
        optimizer.zero_grad();
        Loss(ddp(Batch(rank, step))).backward();
        optimizer.step();
      }
    });
    ExpectClose(net->parameters(), expected);
  });
}

struct Normalized : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return norm(x); }
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(6));
};

TEST(DistributedDataParallel, GivesAllRanksTheBuffersOfRankZero) {
  WithGroup(2, [](const auto& group, int rank) {
    auto net = std::make_shared<Normalized>();
    DistributedDataParallel<Normalized> ddp(net, group);
    for (int step = 0; step < 2; ++step) Loss(ddp(Batch(rank, step))).backward();
    // Each rank has added its own second batch to what rank 0 had after the first.
    Normalized alone;
    alone.forward(Batch(0, 0));
    alone.forward(Batch(rank, 1));
    EXPECT_TRUE(at::allclose(net->norm->running_mean, alone.norm->running_mean));
  });
}

struct ManyOutputs : torch::nn::Module {
  std::tuple<at::Tensor, std::vector<at::Tensor>> forward(const at::Tensor& x) {
    return {used(x), {x, x}};
  }
  torch::nn::Linear used = register_module("used", torch::nn::Linear(6, 3));
  torch::nn::Linear unused = register_module("unused", torch::nn::Linear(6, 3));
};

TEST(DistributedDataParallel, FindsUnusedParametersBehindATuple) {
  WithGroup(2, [](const auto& group, int rank) {
    auto net = std::make_shared<ManyOutputs>();
    DistributedDataParallel<ManyOutputs> ddp(net, group, {.find_unused_parameters = true});
    Loss(std::get<0>(ddp(Batch(rank, 0)))).backward();
    EXPECT_TRUE(net->used->weight.grad().defined());
    EXPECT_FALSE(net->unused->weight.grad().defined());
  });
}

TEST(DistributedDataParallel, EvaluatesWithoutTheOthers) {
  WithGroup(2, [](const auto& group, int rank) {
    DistributedDataParallel<Net> ddp(std::make_shared<Net>(), group);
    if (rank == 1) return;
    const at::NoGradGuard no_grad;
    EXPECT_EQ(ddp(Batch(rank, 0)).size(1), 3);
  });
}

TEST(DistributedDataParallel, LeavesFrozenParametersAlone) {
  WithGroup(2, [](const auto& group, int rank) {
    auto net = std::make_shared<Net>();
    net->first->weight.set_requires_grad(false);
    DistributedDataParallel<Net> ddp(net, group);
    Loss(ddp(Batch(rank, 0))).backward();
    EXPECT_FALSE(net->first->weight.grad().defined());
    EXPECT_TRUE(net->second->weight.grad().defined());
  });
}

}  // namespace
}  // namespace ddprun
