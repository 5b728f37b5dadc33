// Graphs of the simulated device: what a replay does, and each rule of capture broken once.
#include "tests/trainer/device/graph.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/trainer/device/simulated_device.h"
#include "tests/trainer/device/thrown.h"

namespace ddprun::simulated {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const auto kOnDevice = at::TensorOptions(DeviceAt()).dtype(at::kFloat);

float Value(const at::Tensor& tensor) {
  return tensor.cpu().flatten()[0].item<float>();
}

class DeviceGraph : public testing::Test {
 protected:
  void TearDown() override {
    graph_.reset();
    SynchronizeDevice(0);
  }
  // Returns the text of the exception that `body` throws while it is recorded.
  std::string Recorded(const std::function<void()>& body) {
    graph_ = MakeGraph(DeviceAt());
    graph_->Begin();
    const std::string thrown = Thrown(body);
    at_end_ = Thrown([&] { graph_->End(); });
    return thrown;
  }
  static void LetWaitFor(const c10::Stream& stream, const c10::Stream& other) {
    c10::Event event(kDeviceType);
    event.record(other);
    event.block(stream);
  }

  const c10::Stream side_ = StreamFromPool(0);
  const c10::Stream stream_ = StreamFromPool(0);
  const c10::StreamGuard guard_{stream_};
  std::unique_ptr<trainer::DeviceGraph> graph_;
  std::string at_end_;
};

TEST_F(DeviceGraph, RunsNothingUntilItIsReplayed) {
  const at::Tensor sum = at::zeros({100}, kOnDevice), one = at::ones({100}, kOnDevice);
  EXPECT_EQ(Recorded([&] { sum.add_(one.mul(2).add_(1)); }), "nothing");
  EXPECT_EQ(at_end_, "nothing");
  EXPECT_EQ(Value(sum), 0);
  TakeQueued();
  for (int i = 0; i < 3; ++i) graph_->Replay();
  EXPECT_EQ(TakeQueued(), 3) << "each is one thing to queue";
  EXPECT_EQ(Value(sum), 9);
  one.fill_(2);
  graph_->Replay();
  EXPECT_EQ(Value(sum), 14);
}

TEST_F(DeviceGraph, TakesStreamsAlongThatJoin) {
  const at::Tensor one = at::ones({100}, kOnDevice);
  at::Tensor sum;
  const auto body = [&] {
    LetWaitFor(side_, stream_);
    at::Tensor doubled;
    {
      const c10::StreamGuard on_side(side_);
      doubled = one.mul(2);
    }
    LetWaitFor(stream_, side_);
    sum = doubled.add(1);
    doubled.record_stream(stream_);
  };
  EXPECT_EQ(Recorded(body), "nothing");
  EXPECT_EQ(at_end_, "nothing");
  graph_->Replay();
  EXPECT_EQ(Value(sum), 3);
}

TEST_F(DeviceGraph, DrawsInItsTurn) {
  at::Generator generator = at::globalContext().defaultGenerator(DeviceAt());
  const at::Tensor drawn = at::zeros({8}, kOnDevice);
  EXPECT_EQ(Recorded([&] { drawn.uniform_(); }), "nothing");
  std::vector<at::Tensor> values[2];
  for (const bool replays : {false, true}) {
    generator.set_current_seed(5);
    for (int i = 0; i < 3; ++i) {
      if (replays && i == 1) {
        graph_->Replay();
      } else {
        drawn.uniform_();
      }
      values[replays].push_back(drawn.cpu());
    }
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(values[0][i].equal(values[1][i])) << i;
}

TEST_F(DeviceGraph, KeepsItsMemoryFromOthers) {
  at::Tensor result;
  const at::Tensor one = at::ones({5000}, kOnDevice);
  EXPECT_EQ(Recorded([&] { result = one.mul(2).add(1); }), "nothing");
  graph_->Replay();
  std::vector<at::Tensor> others;
  for (int i = 0; i < 40; ++i) others.push_back(at::full({5000}, 7, kOnDevice));
  for (int i = 0; i < 2; ++i) graph_->Replay();
  for (const at::Tensor& other : others) EXPECT_EQ(Value(other), 7);
  EXPECT_EQ(Value(result), 3);
  const size_t held = MemoryUseOf(0).cached;
  graph_.reset();
  EXPECT_EQ(Value(result), 3);
  EXPECT_LT(MemoryUseOf(0).cached, held);
}

TEST_F(DeviceGraph, LetsNobodyWaitForItsWork) {
  const at::Tensor one = at::ones({}, kOnDevice);
  c10::Event before(kDeviceType);
  before.record(stream_);
  const std::pair<const char*, std::function<void()>> waits[] = {
      {"a value to the host", [&] { one.item(); }},
      {"a blocking copy to the host", [&] { one.cpu(); }},
      {"synchronize", [&] { stream_.synchronize(); }},
      {"synchronize", [&] { before.synchronize(); }},
      {"synchronize", [&] { side_.synchronize(); }},
      {"an event query", [&] { before.query(); }},
      {"a query of a stream", [&] { stream_.query(); }},
      {"a shape that depends on data", [&] { at::nonzero(one); }},
      {"a copy to the host",
       [&] {
         at::empty({}, at::TensorOptions().pinned_memory(true)).copy_(one, /*non_blocking=*/true);
       }},
      // From memory that is not pinned.
      {"a blocking copy to the device", [&] { at::ones({3}).to(DeviceAt(), true); }},
      {"a generator's state",
       [&] { at::globalContext().defaultGenerator(DeviceAt()).get_state(); }},
  };
  for (const auto& [name, wait] : waits) {
    EXPECT_THAT(Recorded(wait), AllOf(HasSubstr(name), HasSubstr("while it is captured")));
    EXPECT_THAT(at_end_, HasSubstr(name)) << "also where somebody has caught it";
  }
}

TEST_F(DeviceGraph, RefusesStreamsThatHaveNotJoined) {
  const at::Tensor one = at::ones({100}, kOnDevice);
  LetWaitFor(side_, stream_);
  EXPECT_THAT(Recorded([&] {
                const c10::StreamGuard on_side(side_);
                one.mul(2);
              }),
              AllOf(HasSubstr("mul"), HasSubstr("has not joined the capture")));
}

TEST_F(DeviceGraph, RefusesStreamsThatNobodyHasWaitedFor) {
  const at::Tensor one = at::ones({100}, kOnDevice);
  EXPECT_EQ(Recorded([&] {
              LetWaitFor(side_, stream_);
              const c10::StreamGuard on_side(side_);
              one.mul(2);
            }),
            "nothing");
  EXPECT_THAT(at_end_, HasSubstr("has joined and nobody has waited for it"));
}

TEST_F(DeviceGraph, RefusesEventsFromOutsideAndOutsideThoseFromWithin) {
  c10::Event outside(kDeviceType), inside(kDeviceType);
  outside.record(side_);
  EXPECT_THAT(Recorded([&] { outside.block(stream_); }), HasSubstr("outside of the capture"));
  EXPECT_EQ(Recorded([&] { inside.record(stream_); }), "nothing");
  for (const auto& use : {std::function<void()>([&] { inside.block(side_); }),
                          std::function<void()>([&] { inside.synchronize(); }),
                          std::function<void()>([&] { inside.query(); })}) {
    EXPECT_THAT(Thrown(use), HasSubstr("recorded in a capture is used outside of it"));
  }
}

TEST_F(DeviceGraph, RefusesTheDefaultStream) {
  const c10::Stream first(c10::Stream::DEFAULT, DeviceAt());
  EXPECT_THAT(Recorded([&] { LetWaitFor(first, stream_); }), HasSubstr("the default stream"));
  const c10::StreamGuard on_default(first);
  graph_ = MakeGraph(DeviceAt());
  EXPECT_THAT(Thrown([&] { graph_->Begin(); }), HasSubstr("the default stream"));
}

TEST_F(DeviceGraph, FindsMemoryThatIsGone) {
  at::Tensor one = at::ones({100}, kOnDevice);
  at::Tensor pinned = at::ones({100}, at::TensorOptions().pinned_memory(true));
  const at::Tensor sum = at::zeros({100}, kOnDevice);
  for (at::Tensor* const gone : {&one, &pinned}) {
    EXPECT_EQ(Recorded([&] { sum.copy_(*gone, /*non_blocking=*/true); }), "nothing");
    EXPECT_EQ(Thrown([&] { graph_->Replay(); }), "nothing");
    SynchronizeDevice(0);
    gone->reset();
    EXPECT_THAT(Thrown([&] { graph_->Replay(); }), HasSubstr("freed since it was captured"));
  }
}

TEST_F(DeviceGraph, RacesAsAWhole) {
  const at::Tensor one = at::ones({100}, kOnDevice);
  EXPECT_EQ(Recorded([&] { one.mul_(2); }), "nothing");
  LetWaitFor(side_, stream_);
  graph_->Replay();
  const c10::StreamGuard on_side(side_);
  EXPECT_THAT(Thrown([&] { one.add(1); }),
              AllOf(HasSubstr("data race"), HasSubstr("a replay of a graph")));
}

TEST_F(DeviceGraph, DropsWhatWasNotEnded) {
  const at::Tensor one = at::ones({}, kOnDevice);
  graph_ = MakeGraph(DeviceAt());
  graph_->Begin();
  one.add_(1);
  graph_.reset();
  EXPECT_EQ(Value(one), 1);
}

}  // namespace
}  // namespace ddprun::simulated
