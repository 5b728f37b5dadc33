#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <thread>

#include <ddprun/checkpointer.h>
#include "base/failure.h"
#include "tests/trainer/data/scratch_folder.h"
#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/checkpoint/checkpoint.h"

namespace ddprun {
namespace {

using testing::HasSubstr;
using trainer::ScratchFolder;

struct SmallNet : torch::nn::Module {
  SmallNet() {
    at::manual_seed(3);
    weight = register_parameter("weight", at::randn({4, 3}));
    unused = register_parameter("unused", at::randn({2}));
    mean = register_buffer("mean", at::zeros({3}));
  }
  void Step(torch::optim::Optimizer& optimizer, int64_t step) {
    at::manual_seed(static_cast<uint64_t>(step));
    optimizer.zero_grad();
    const at::Tensor y = at::matmul(at::randn({5, 4}), weight);
    mean.mul_(0.9).add_(y.detach().mean(0));
    (y - mean).square().sum().backward();
    optimizer.step();
  }
  at::Tensor weight, unused, mean;
};

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(SmallNet& net)>;

template <typename Kind, typename Options>
MakeOptimizer Maker(const Options& options) {
  return [options](SmallNet& net) { return std::make_unique<Kind>(net.parameters(), options); };
}

const std::map<std::string, MakeOptimizer> kOptimizers = {
    {"sgd", Maker<torch::optim::SGD>(torch::optim::SGDOptions(0.01))},
    {"momentum", Maker<torch::optim::SGD>(torch::optim::SGDOptions(0.01).momentum(0.9))},
    {"adam", Maker<torch::optim::Adam>(torch::optim::AdamOptions(0.01).amsgrad(true))},
    {"adamw", Maker<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01))},
    {"rmsprop", Maker<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.01).centered(true))},
    {"adagrad", Maker<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.01))}};

TEST(Checkpointer, GoesOnBitForBitWithEveryOptimizer) {
  for (const auto& [name, make] : kOptimizers) {
    const ScratchFolder folder;
    const CheckpointerOptions options{.folder = folder.Path("c")};
    SmallNet net;
    const auto optimizer = make(net);
    int64_t seen = 0;
    {
      Checkpointer checkpoints(net, *optimizer, {}, options);
      checkpoints.track("seen", seen);
      EXPECT_EQ(checkpoints.restore(), 0);
      for (int64_t step = 0; step < 3; ++step, seen += 7) net.Step(*optimizer, step);
      optimizer->param_groups()[0].options().set_lr(0.02);
      checkpoints.save(3);
      checkpoints.wait_before_update();
      const auto outcome = checkpoints.finish();
      ASSERT_TRUE(outcome && !outcome->error) << name;
    }
    for (int64_t step = 3; step < 6; ++step) net.Step(*optimizer, step);

    SmallNet again;
    again.weight.data().zero_();
    const auto fresh = make(again);
    int64_t restored = 0;
    Checkpointer checkpoints(again, *fresh, {}, options);
    checkpoints.track("seen", restored);
    ASSERT_EQ(checkpoints.restore(), 3) << name;
    EXPECT_EQ(restored, 21);
    EXPECT_EQ(fresh->param_groups()[0].options().get_lr(), 0.02);
    for (int64_t step = 3; step < 6; ++step) again.Step(*fresh, step);
    EXPECT_TRUE(again.weight.equal(net.weight)) << name;
    EXPECT_TRUE(again.mean.equal(net.mean)) << name;
  }
}

TEST(Checkpointer, FallsBackToTheOneBefore) {
  const ScratchFolder folder;
  SmallNet net;
  const auto optimizer = kOptimizers.at("adamw")(net);
  {
    Checkpointer checkpoints(net, *optimizer, {}, {.folder = folder.Path("c")});
    for (int64_t step = 1; step <= 2; ++step) {
      net.Step(*optimizer, step);
      checkpoints.save(step);
      checkpoints.wait_before_update();
    }
  }
  std::filesystem::resize_file(folder.Path("c/step-2/index.json"), 10);
  Checkpointer checkpoints(net, *optimizer, {}, {.folder = folder.Path("c")});
  EXPECT_EQ(checkpoints.restore(), 1);
}

// Two ranks read different files; either of them may read the damaged one.
TEST(Checkpointer, FallsBackOnAllRanksWhereOneFindsDamage) {
  for (const char* file :
       {"index.json", "shard-00000-of-00002.safetensors", "shard-00001-of-00002.safetensors"}) {
    const ScratchFolder folder;
    const auto with_net = [&](const auto& use) {
      trainer::WithGroup(2, [&](const auto& group, int) {
        SmallNet net;
        const auto optimizer = kOptimizers.at("adamw")(net);
        Checkpointer checkpoints(net, *optimizer, group, {.folder = folder.Path("c")});
        use(net, *optimizer, checkpoints);
      });
    };
    with_net([](SmallNet& net, auto& optimizer, Checkpointer& checkpoints) {
      for (int64_t step = 1; step <= 2; ++step) {
        net.Step(optimizer, step);
        checkpoints.save(step);
        checkpoints.wait_before_update();
      }
    });
    const std::string path = folder.Path("c/step-2/") + file;
    std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(-1, std::ios::end);
    bytes.put('\x7e');
    bytes.close();
    ASSERT_TRUE(bytes) << path;
    with_net([&](SmallNet&, auto&, Checkpointer& checkpoints) {
      EXPECT_EQ(checkpoints.restore(), 1) << file;
    });
  }
}

// Saving is no collective without buffers: ranks may come as late as they like.
struct NetWithoutBuffers : torch::nn::Module {
  NetWithoutBuffers() { weight = register_parameter("weight", at::zeros({4, 3})); }
  at::Tensor weight;
};

TEST(Checkpointer, WaitsForOtherRanksWhenItEnds) {
  const ScratchFolder folder;
  std::atomic<bool> leaving = false;
  trainer::WithGroup(2, [&](const auto& group, int rank) {
    NetWithoutBuffers net;
    torch::optim::SGD optimizer(net.parameters(), 0.01);
    Checkpointer checkpoints(net, optimizer, group, {.folder = folder.Path("c")});
    if (rank == 1) {
      leaving.wait(false);
      // Time in which the other one might leave.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    checkpoints.save(1);
    checkpoints.wait_before_update();
    leaving = true;
    leaving.notify_all();
  });
  EXPECT_EQ(ValueOrThrow(trainer::Checkpoint::Open(folder.Path("c/step-1"))).step(), 1);
}

TEST(Checkpointer, DoesNotWaitForOtherRanksWhenAnExceptionEndsIt) {
  const ScratchFolder folder;
  const auto leave_by_exception = [&](const auto& group, int rank) {
    NetWithoutBuffers net;
    torch::optim::SGD optimizer(net.parameters(), 0.01);
    Checkpointer checkpoints(net, optimizer, group,
                             {.folder = folder.Path("c"), .deadline_seconds = 1e6});
    if (rank == 0) checkpoints.save(1);
    throw std::runtime_error("the loop failed");
  };
  EXPECT_THROW(trainer::WithGroup(2, leave_by_exception), std::runtime_error);
  EXPECT_FALSE(std::filesystem::exists(folder.Path("c/step-1")));
}

TEST(Checkpointer, RefusesWhatItCannotSaveOrLoad) {
  const ScratchFolder folder;
  const CheckpointerOptions options{.folder = folder.Path("c")};
  SmallNet net;
  SmallNet other;
  const auto what = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const Failure& failure) {
      return failure.error().what;
    }
    return "nothing";
  };
  torch::optim::LBFGS lbfgs(net.parameters());
  EXPECT_THAT(what([&] { Checkpointer(net, lbfgs, {}, options); }), HasSubstr("none of torch"));
  const auto of_other = kOptimizers.at("sgd")(other);
  EXPECT_THAT(what([&] { Checkpointer(net, *of_other, {}, options); }),
              HasSubstr("that the module does not have"));
  const auto momentum = kOptimizers.at("momentum")(net);
  net.Step(*momentum, 0);
  {
    Checkpointer checkpoints(net, *momentum, {}, options);
    checkpoints.save(1);
    checkpoints.wait_before_update();
  }
  other.register_parameter("more", at::zeros({2}));
  const auto fresh = kOptimizers.at("momentum")(other);
  Checkpointer checkpoints(other, *fresh, {}, options);
  EXPECT_THAT(what([&] { checkpoints.restore(); }), HasSubstr("model.more"));
}

TEST(Checkpointer, NotesSignals) {
  install_stop_handler();
  const ScratchFolder folder;
  SmallNet net;
  const auto optimizer = kOptimizers.at("sgd")(net);
  const Checkpointer checkpoints(net, *optimizer, {}, {.folder = folder.Path("c")});
  EXPECT_FALSE(checkpoints.should_stop());
  ::kill(::getpid(), SIGTERM);
  while (!stop_requested()) std::this_thread::yield();  // another thread notes it
  EXPECT_TRUE(checkpoints.should_stop());
}

}  // namespace
}  // namespace ddprun
