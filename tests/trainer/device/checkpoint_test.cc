// Checkpoints of a state on a simulated device: copied beside what the device computes.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/DeviceGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "tests/trainer/checkpoint/checkpoint_fixture.h"
#include "tests/trainer/device/pinned_memory.h"
#include "tests/trainer/device/simulated_device.h"
#include "tests/trainer/device/thrown.h"
#include "trainer/checkpoint/shard_copy.h"

namespace ddprun::trainer {
namespace {

using simulated::DeviceAt;
using testing::AllOf;
using testing::HasSubstr;

// One tensor is strided, one stays on the host; all change in a step.
class MixedState {
 public:
  explicit MixedState(c10::Device device)
      : tensors_{at::arange(300'000, at::kFloat).to(device),
                 at::arange(1000, at::kFloat).to(at::kBFloat16).to(device),
                 at::arange(6000, at::kFloat).reshape({60, 100}).to(device).t(),
                 at::arange(5, at::kLong)} {}

  void Step() {
    for (size_t i = 0; i < tensors_.size(); ++i) Change(i);
  }
  void Change(size_t index) { tensors_[index].mul_(2).add_(1); }
  size_t bytes() const {
    size_t sum = 0;
    for (const at::Tensor& tensor : tensors_) sum += tensor.nbytes();
    return sum;
  }
  VisitState Owners() {
    return [this](StateVisitor& visitor) {
      visitor.Section("model.");
      for (size_t i = 0; i < tensors_.size(); ++i) visitor.Tensor(std::to_string(i), tensors_[i]);
    };
  }
  void ExpectEqual(const MixedState& other) const {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      EXPECT_TRUE(at::equal(tensors_[i].cpu(), other.tensors_[i].cpu())) << i;
    }
  }

 private:
  std::vector<at::Tensor> tensors_;
};

TEST(DeviceCheckpoint, IsSavedBesideTheStepsAndLoadedOnAnyDevice) {
  const CheckpointFolder folder;
  const size_t pinned_before = simulated::PinnedBytes();
  std::optional<BackgroundSaver> saver(
      SaverOptions{.folder = folder.path(), .pinned = simulated::LargePinnedMemory()});
  const c10::DeviceGuard guard(DeviceAt(1));
  MixedState state(DeviceAt(1));
  MixedState expected(at::kCPU);
  for (int64_t step = 1; step <= 5; ++step) {
    state.Step();
    expected.Step();
    simulated::TakeHostSyncs();
    saver->Begin(SaveState(state.Owners()), {.step = step, .attempt = "a"});
    saver->WaitForCopy();
    state.Step();
    const std::optional<SaveOutcome> outcome = saver->Finish();
    // The saver's thread's own.
    const auto syncs = simulated::TakeHostSyncs();
    EXPECT_EQ(syncs.size(), 1U) << simulated::Described(syncs);
    ASSERT_TRUE(outcome && !outcome->error) << outcome->error->what;
    for (const c10::Device device : {c10::Device(at::kCPU), DeviceAt(0), DeviceAt(1)}) {
      MixedState loaded(device);
      ValueOrThrow(Checkpoint::Open(outcome->path)).Load(loaded.Owners());
      loaded.ExpectEqual(expected);
    }
    expected.Step();
    EXPECT_EQ(simulated::PinnedBytes() - pinned_before, state.bytes()) << "once, and no more";
  }
  saver.reset();
  EXPECT_EQ(simulated::PinnedBytes(), pinned_before);
}

TEST(DeviceCheckpoint, IsSavedWithoutPinnedMemory) {
  const CheckpointFolder folder;
  MixedState state(DeviceAt(0));
  MixedState loaded(at::kCPU);
  loaded.Step();
  constexpr PinnedMemory kNone = {.take = [](size_t) -> void* { return nullptr; }};
  const SaveOutcome outcome =
      SaveCheckpoint({.folder = folder.path(), .pinned = kNone}, SaveState(state.Owners()),
                     {.step = 1, .attempt = "a"});
  ASSERT_FALSE(outcome.error) << outcome.error->what;
  ValueOrThrow(Checkpoint::Open(outcome.path)).Load(loaded.Owners());
  loaded.ExpectEqual(state);
}

// Freeing pinned memory may wait for a device, and the device for a rank that is lost.
TEST(DeviceCheckpoint, KeepsPinnedMemoryWhereAFailureIsYetToBeTold) {
  static int taken = 0;
  const PinnedMemory counted = {.take =
                                    [](size_t bytes) {
                                      ++taken;
                                      return std::malloc(bytes);
                                    },
                                .give_back =
                                    [](void* memory) {
                                      --taken;
                                      std::free(memory);
                                    }};
  {
    HostBuffer buffer(counted);
    buffer.Reserve(100, /*of_device=*/true);
    buffer.Reserve(200, /*of_device=*/true);
    EXPECT_EQ(taken, 1);
  }
  EXPECT_EQ(taken, 0);
  char* left = nullptr;
  try {
    HostBuffer buffer(counted);
    buffer.Reserve(100, /*of_device=*/true);
    left = buffer.data();
    throw std::runtime_error("a rank is gone");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(taken, 1);
  }
  std::free(left);
}

// Only what is computed with the state has to wait for its copy.
TEST(DeviceCheckpoint, HoldsUpNoDeviceForWhatIsOnTheHost) {
  const CheckpointFolder folder;
  BackgroundSaver saver({.folder = folder.path(), .pinned = simulated::LargePinnedMemory()});
  MixedState state(DeviceAt(0));
  const StateDict dict = SaveState(state.Owners());
  // The copy stands until then: the saver's thread would tell the host that it is over.
  const auto goes_on = std::make_shared<simulated::Signal>();
  simulated::QueueControl(simulated::CurrentStream(0), [goes_on] { goes_on->Wait(); });
  saver.Begin(SaveState(state.Owners()), {.step = 1, .attempt = "a"});
  const at::Tensor on_host = dict.tensors[3].tensor;
  saver.WaitForCopyOf({&on_host, 1});
  EXPECT_THAT(simulated::Thrown([&] { state.Change(0); }), HasSubstr("data race"));
  const at::Tensor on_device = dict.tensors[0].tensor;
  saver.WaitForCopyOf({&on_device, 1});
  EXPECT_EQ(simulated::Thrown([&] { state.Step(); }), "nothing");
  goes_on->Set();
  EXPECT_FALSE(saver.Finish()->error);
}

TEST(DeviceCheckpoint, IsSpoiltByAnUpdateThatDoesNotWait) {
  MixedState state(DeviceAt(0));
  const StateDict dict = SaveState(state.Owners());
  HostBuffer buffer(simulated::LargePinnedMemory());
  ShardCopy copy(dict.tensors, PlanShard(dict.tensors, {}), buffer);
  for (const size_t tensor : {0, 1, 2}) {
    EXPECT_THAT(simulated::Thrown([&] { state.Change(tensor); }),
                AllOf(HasSubstr("data race"), HasSubstr("writes"), HasSubstr("reads")));
  }
  copy.MakeStreamWait();
  EXPECT_EQ(simulated::Thrown([&] { state.Step(); }), "nothing");
  copy.Finish();
  copy.WaitForDevice();
}

}  // namespace
}  // namespace ddprun::trainer
