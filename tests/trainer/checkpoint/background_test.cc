// Saving beside a training that goes on.
#include <gmock/gmock.h>

#include <cmath>
#include <memory>
#include <thread>

#include "tests/trainer/checkpoint/checkpoint_fixture.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Larger than what is copied at once, one of them not contiguous.
struct LargeState {
  std::vector<at::Tensor> tensors = {
      at::arange(3'000'000, at::kFloat), at::arange(800'000, at::kDouble),
      at::arange(1'000'000, at::kFloat).reshape({1000, 1000}).t(), at::arange(5, at::kLong)};

  VisitState Owners() {
    return [this](StateVisitor& visitor) {
      visitor.Section("model.");
      for (size_t i = 0; i < tensors.size(); ++i) visitor.Tensor(std::to_string(i), tensors[i]);
    };
  }
  StateDict Dict() { return SaveState(Owners()); }
};

void ExpectLarge(const std::string& path) {
  LargeState loaded;
  for (const at::Tensor& tensor : loaded.tensors) tensor.zero_();
  ValueOrThrow(Checkpoint::Open(path)).Load(loaded.Owners());
  const LargeState expected;
  for (size_t i = 0; i < expected.tensors.size(); ++i) {
    EXPECT_TRUE(at::equal(loaded.tensors[i], expected.tensors[i])) << i;
  }
}

TEST(BackgroundSaver, SavesTheStateOfItsBeginning) {
  const CheckpointFolder folder;
  BackgroundSaver saver({.folder = folder.path()});
  EXPECT_EQ(saver.WaitForCopy(), 0);
  saver.Reserve(LargeState().Dict());
  for (int64_t step = 1; step <= 5; ++step) {
    LargeState state;
    saver.Begin(state.Dict(), {.step = step, .attempt = "a"});
    const double stall = saver.WaitForCopy();
    for (const at::Tensor& tensor : state.tensors) tensor.fill_(-1);
    const std::optional<SaveOutcome> outcome = saver.Finish();
    ASSERT_TRUE(outcome && !outcome->error);
    EXPECT_EQ(outcome->stall_seconds, stall);
    EXPECT_GE(outcome->seconds, outcome->copy_seconds);
    EXPECT_GT(outcome->bytes, 22'000'000);
    ExpectLarge(outcome->path);
  }
  EXPECT_FALSE(saver.Finish());
}

TEST(BackgroundSaver, CopiesEachPieceBeforeItsUpdate) {
  const CheckpointFolder folder;
  BackgroundSaver saver({.folder = folder.path()});
  for (int64_t step = 1; step <= 5; ++step) {
    LargeState state;
    saver.Begin(state.Dict(), {.step = step, .attempt = "a"});
    for (size_t i = state.tensors.size(); i-- > 0;) {
      // A part of the tensor, and then the rest of it.
      at::Tensor& tensor = state.tensors[i];
      const int64_t half = tensor.size(0) / 2;
      for (const at::Tensor& part :
           {tensor.narrow(0, half, tensor.size(0) - half), tensor.narrow(0, 0, half)}) {
        saver.WaitForCopyOf(std::vector<at::Tensor>{part});
        part.fill_(-1);
      }
    }
    const std::optional<SaveOutcome> outcome = saver.Finish();
    ASSERT_TRUE(outcome && !outcome->error);
    ExpectLarge(outcome->path);
  }
}

TEST(BackgroundSaver, WaitsWhileOneIsUnderWay) {
  const CheckpointFolder folder;
  // The other rank never comes.
  BackgroundSaver saver({.folder = folder.path(), .part = {.rank = 0, .size = 2}, .deadline = 1e6});
  saver.Begin(SmallState(1).Dict(), {.step = 1, .attempt = "a"});
  EXPECT_TRUE(saver.busy());
  EXPECT_FALSE(saver.Poll());
  saver.Abandon();
  saver.Begin(SmallState(3).Dict(), {.step = 3, .attempt = "a"});
  saver.Abandon();
  // Both outcomes are told, in their order.
  for (const int64_t step : {1, 3}) {
    const std::optional<SaveOutcome> outcome = saver.Finish();
    ASSERT_TRUE(outcome && outcome->error);
    EXPECT_EQ(outcome->step, step);
    EXPECT_EQ(outcome->error->where, "rank 1");
    EXPECT_THAT(outcome->error->what, HasSubstr("had to stop waiting"));
  }
}

TEST(BackgroundSaver, WaitsForOtherRanksNoLongerThanTheDeadline) {
  const CheckpointFolder folder;
  for (const int64_t rank : {0, 1}) {
    const SaveOutcome outcome = SaveCheckpoint(
        {.folder = folder.path(), .part = {.rank = rank, .size = 2}, .deadline = 0.1},
        SmallState(1).Dict(), {.step = 1, .attempt = std::to_string(rank)});
    ASSERT_TRUE(outcome.error);
    EXPECT_THAT(outcome.error->what, HasSubstr("It was not ready"));
  }
}

// With the same word: what the first attempt left is not taken for the second's.
TEST(BackgroundSaver, SavesAStepAgain) {
  const CheckpointFolder folder;
  BackgroundSaver first({.folder = folder.path(), .part = {.rank = 0, .size = 2}});
  BackgroundSaver second({.folder = folder.path(), .part = {.rank = 1, .size = 2}});
  for (const char* run : {"[]", "{}"}) {
    for (BackgroundSaver* saver : {&first, &second}) {
      saver->Begin(SmallState(1).Dict(), {.step = 1, .attempt = "a", .run = run});
    }
    for (BackgroundSaver* saver : {&first, &second}) {
      EXPECT_EQ(saver->Finish()->error.has_value(), run == std::string("[]"));
    }
  }
  EXPECT_TRUE(HasSmallState(*ValueOrThrow(OpenNewest(folder.path())).checkpoint));
}

// A rank without the memory for a copy writes nothing; the other one need not wait to hear of it.
TEST(BackgroundSaver, TellsOtherRanksOfAFailureBeforeItWrites) {
  const CheckpointFolder folder;
  for (const int64_t failing : {0, 1}) {
    std::vector<std::unique_ptr<BackgroundSaver>> savers;
    for (const int64_t rank : {0, 1}) {
      savers.push_back(std::make_unique<BackgroundSaver>(SaverOptions{
          .folder = folder.path(), .part = {.rank = rank, .size = 2}, .deadline = 1e6}));
    }
    StateDict huge;  // one element, seen as more than a process can have
    huge.tensors.push_back({.name = "w",
                            .tensor = at::zeros({1}).expand({int64_t{1} << 50}),
                            .global_shape = {int64_t{1} << 50},
                            .offset = {0}});
    huge.tensors[0].replicas = {.rank = 0, .size = 1};
    for (const int64_t rank : {0, 1}) {
      savers[rank]->Begin(rank == failing ? huge : SmallState(1).Dict(),
                          {.step = 1, .attempt = "a"});
    }
    for (const auto& saver : savers) {
      const std::optional<SaveOutcome> outcome = saver->Finish();
      ASSERT_TRUE(outcome && outcome->error);
      EXPECT_THAT(outcome->error->what, HasSubstr("bytes for a copy of the state"));
    }
    // The next save is one of both.
    for (const auto& saver : savers) {
      saver->Begin(SmallState(2 + failing).Dict(), {.step = 2 + failing, .attempt = "a"});
    }
    for (const auto& saver : savers) EXPECT_FALSE(saver->Finish()->error);
  }
  EXPECT_THAT(folder.Names(), ElementsAre("latest", "step-2", "step-3"));
}

TEST(BackgroundSaver, DoesNotWaitForOtherRanksWhenItEnds) {
  const CheckpointFolder folder;
  for (const int64_t rank : {0, 1}) {
    BackgroundSaver saver(
        {.folder = folder.path(), .part = {.rank = rank, .size = 2}, .deadline = 1e6});
    saver.Begin(SmallState(1).Dict(), {.step = 1, .attempt = std::to_string(rank)});
  }
  EXPECT_FALSE(ValueOrThrow(OpenNewest(folder.path())).checkpoint);
}

TEST(BackgroundSaver, KeepsTheNewestAndTheBest) {
  const CheckpointFolder folder;
  BackgroundSaver saver({.folder = folder.path(), .retention = {.newest = 2, .best = 1}});
  const std::vector<double> losses = {3, 1, 2, 4, 5, 6};
  for (size_t i = 0; i < losses.size(); ++i) {
    const auto step = static_cast<int64_t>(i) + 1;
    saver.Begin(SmallState(step).Dict(), {.step = step, .attempt = "a", .score = losses[i]});
  }
  while (const std::optional<SaveOutcome> outcome = saver.Finish()) {
    EXPECT_FALSE(outcome->error || outcome->not_deleted);
  }
  EXPECT_THAT(folder.Names(), ElementsAre("latest", "step-2", "step-5", "step-6"));
}

TEST(BackgroundSaver, TellsWhatIsInTheWay) {
  const CheckpointFolder folder;
  WriteAllOf(folder.path() + "/file", "");
  SaveOutcome outcome = SaveSmall(folder.path() + "/file", 1);
  ASSERT_TRUE(outcome.error);
  EXPECT_THAT(outcome.error->what, HasSubstr("Not a directory"));
  outcome = SaveSmall(folder.path(), 1, "../x");
  ASSERT_TRUE(outcome.error);
  EXPECT_THAT(outcome.error->what, HasSubstr("is not a valid name"));
  outcome = SaveCheckpoint({.folder = folder.path()}, SmallState(1).Dict(),
                           {.step = 1, .attempt = "a", .run = "[]"});
  ASSERT_TRUE(outcome.error);
  EXPECT_THAT(outcome.error->what, HasSubstr("must be a JSON object"));
  StateDict complex;
  complex.tensors.push_back({.name = "c",
                             .tensor = at::zeros({2}, at::kComplexFloat),
                             .global_shape = {2},
                             .offset = {0}});
  outcome = SaveCheckpoint({.folder = folder.path()}, complex, {.step = 1, .attempt = "a"});
  ASSERT_TRUE(outcome.error);
  EXPECT_THAT(outcome.error->what, HasSubstr("\"c\" has a dtype"));
  EXPECT_THAT(folder.Names(), ElementsAre("file"));
}

TEST(BackgroundSaver, RefusesNumbersThatHaveToBeFinite) {
  const CheckpointFolder folder;
  int64_t step = 0;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const double value : {1.0, double{NAN}, double{-INFINITY}}) {
      at::Tensor tensor = at::ones({3000}, dtype);
      tensor[2999] = value;
      StateDict state;
      for (const char* name : {"first", "w"}) {
        state.tensors.push_back({.name = name,
                                 .tensor = name[0] == 'w' ? tensor : at::full({5}, NAN),
                                 .global_shape = tensor.sizes().vec(),
                                 .offset = {0}});
      }
      state.tensors[0].global_shape = {5};
      const SaveOutcome outcome = SaveCheckpoint({.folder = folder.path()}, state,
                                                 {.step = ++step, .attempt = "a", .finite = {"w"}});
      ASSERT_EQ(outcome.error.has_value(), value != 1) << dtype;
      if (value == 1) continue;
      EXPECT_THAT(outcome.error->what, HasSubstr("\"w\" has a number that is NaN or infinite"));
    }
  }
}

TEST(BackgroundSaver, RefusesStateThatIsNotWhole) {
  const CheckpointFolder folder;
  StateDict half;
  half.tensors.push_back(
      {.name = "w", .tensor = at::zeros({2}), .global_shape = {4}, .offset = {0}});
  half.tensors[0].replicas = {.rank = 0, .size = 1};
  const SaveOutcome outcome =
      SaveCheckpoint({.folder = folder.path()}, half, {.step = 1, .attempt = "a"});
  ASSERT_TRUE(outcome.error);
  EXPECT_THAT(outcome.error->what, HasSubstr("\"w\" is not there as a whole"));
  EXPECT_FALSE(ValueOrThrow(OpenNewest(folder.path())).checkpoint);
}

// Saved, loaded, saved again: the same bytes.
TEST(BackgroundSaver, SavesWhatItLoaded) {
  const CheckpointFolder folder;
  const SaveOutcome first = SaveSmall(folder.path(), 1);
  SmallState loaded(5);
  ValueOrThrow(Checkpoint::Open(first.path)).Load(loaded.Owners());
  const SaveOutcome second = SaveCheckpoint({.folder = folder.path() + "/again"}, loaded.Dict(),
                                            {.step = 1, .attempt = "a"});
  for (const auto& entry : fs::directory_iterator(first.path)) {
    const std::string name = entry.path().filename().string();
    EXPECT_EQ(ReadAll(first.path + "/" + name), ReadAll(second.path + "/" + name)) << name;
  }
}

}  // namespace
}  // namespace ddprun::trainer
