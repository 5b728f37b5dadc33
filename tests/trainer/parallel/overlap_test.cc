// Work that overlaps with the averaging of gradients changes no number, only when it is known.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/parallel/reducer.h"

namespace ddprun::trainer {
namespace {

using Overlap = Reducer::Overlap;
using testing::ElementsAre;

// Layers of ten by ten; the one before the last is skipped where the rank and the step are odd.
std::vector<NamedParameter> MakeLayers() {
  std::vector<NamedParameter> layers;
  for (uint64_t i = 0; i < 6; ++i) {
    layers.push_back(
        {"layer" + std::to_string(i), Random({10, 10}, 70 + i).set_requires_grad(true)});
  }
  return layers;
}

at::Tensor LossOfLayers(const std::vector<NamedParameter>& layers, int rank, int step, bool skip) {
  at::Tensor x = Random({7, 10}, static_cast<uint64_t>(100 * rank + step));
  for (size_t i = 0; i < layers.size(); ++i) {
    if (skip && i == 4 && rank % 2 == 1 && step % 2 == 1) continue;
    x = at::tanh(at::matmul(x, layers[i].tensor));
  }
  return x.pow(2).sum();
}

// The losses of plain gradient descent, one backward of which in three only adds up.
std::vector<double> Train(const c10::intrusive_ptr<HostProcessGroup>& group,
                          Overlap overlap,
                          bool unused,
                          double rate = 0.01) {
  const std::vector<NamedParameter> layers = MakeLayers();
  Reducer reducer(layers, group,
                  {.limits = {.first_bytes = 400, .cap_bytes = 800},
                   .overlap = overlap,
                   .find_unused_parameters = unused});
  std::vector<double> losses;
  for (int step = 0; step < 6; ++step) {
    reducer.BeginStep();
    for (int micro = 0; micro < 2; ++micro) {
      if (micro == 0 && step % 3 != 0) continue;
      reducer.PrepareBackward(micro == 1);
      const at::Tensor loss = LossOfLayers(layers, group->getRank(), 10 * step + micro, unused);
      loss.backward();
      losses.push_back(loss.item<double>());
    }
    const at::NoGradGuard no_grad;
    reducer.WaitForBuckets([&](std::span<const at::Tensor> parameters) {
      for (const at::Tensor& parameter : parameters) parameter.sub_(parameter.grad(), rate);
    });
  }
  return losses;
}

TEST(Overlap, ChangesNoBitOfTheLosses) {
  for (const bool unused : {false, true}) {
    for (const int size : {2, 3}) {
      WithGroup(size, [&](const auto& group, int) {
        const std::vector<double> expected = Train(group, Overlap::kNone, unused);
        EXPECT_NE(Train(group, Overlap::kNone, unused, 0), expected);
        EXPECT_EQ(Train(group, Overlap::kBackward, unused), expected);
        EXPECT_EQ(Train(group, Overlap::kStep, unused), expected);
        EXPECT_EQ(Train(group, Overlap::kBoth, unused), expected);
      });
    }
  }
}

// Says when buckets are sent and waited for.
class Witness : public CommHook {
 public:
  explicit Witness(std::vector<std::string>& events) : events_(events) {}
  std::function<void()> Start(GradientBucket& bucket, c10d::Backend&) override {
    const std::string number = std::to_string(bucket.index);
    events_.push_back("send " + number);
    return [this, number] { events_.push_back("wait " + number); };
  }

 private:
  std::vector<std::string>& events_;
};

std::vector<std::string> EventsOf(Overlap overlap) {
  std::vector<std::string> events;
  WithGroup(1, [&](const auto& group, int) {
    const at::Tensor first = at::ones({4}).set_requires_grad(true);
    const at::Tensor last = at::ones({4}).set_requires_grad(true);
    Reducer reducer({{"first", first}, {"last", last}}, group,
                    {.limits = {.first_bytes = 1, .cap_bytes = 1},
                     .overlap = overlap,
                     .comm_hook = std::make_shared<Witness>(events)});
    reducer.PrepareBackward(true);
    // The gradient of "last" comes first, and when that of "first" comes, this is said.
    const at::Tensor inner = at::tanh(first);
    inner.register_hook([&](const at::Tensor&) { events.push_back("backward"); });
    (inner * last).sum().backward();
    events.push_back("end");
    reducer.WaitForBuckets([&](std::span<const at::Tensor> parameters) {
      ASSERT_EQ(parameters.size(), 1U);
      events.push_back(parameters[0].is_same(last) ? "update last" : "update first");
    });
  });
  return events;
}

TEST(Overlap, OfBackwardSendsBucketsWhenTheyAreFull) {
  EXPECT_THAT(EventsOf(Overlap::kBackward),
              ElementsAre("send 0", "backward", "send 1", "wait 0", "wait 1", "end", "update last",
                          "update first"));
}

TEST(Overlap, OfTheStepUpdatesABucketBeforeItWaitsForTheNext) {
  EXPECT_THAT(EventsOf(Overlap::kStep), ElementsAre("backward", "send 0", "send 1", "end", "wait 0",
                                                    "update last", "wait 1", "update first"));
}

TEST(Overlap, OfBothSendsEarlyAndWaitsLate) {
  EXPECT_THAT(EventsOf(Overlap::kBoth), ElementsAre("send 0", "backward", "send 1", "end", "wait 0",
                                                    "update last", "wait 1", "update first"));
}

TEST(Overlap, OfNothingSendsAndWaitsWhenBackwardHasEnded) {
  EXPECT_THAT(EventsOf(Overlap::kNone),
              ElementsAre("backward", "send 0", "send 1", "wait 0", "wait 1", "end", "update last",
                          "update first"));
}

TEST(Overlap, OfTheStepWaitsBeforeTheNextBackwardWritesToTheBuckets) {
  WithGroup(2, [](const auto& group, int rank) {
    const at::Tensor weight = at::ones({100'000}).set_requires_grad(true);
    Reducer reducer({{"weight", weight}}, group, {.overlap = Overlap::kStep});
    for (int step = 0; step < 3; ++step) {
      reducer.PrepareBackward(true);
      (weight * (rank + 1)).sum().backward();
    }
    reducer.WaitForBuckets();
    // 1.5, then (1.5 + 1 and 1.5 + 2) averaged, then that once more.
    EXPECT_TRUE(at::equal(weight.grad(), at::full({100'000}, 4.5)));
  });
}

}  // namespace
}  // namespace ddprun::trainer
