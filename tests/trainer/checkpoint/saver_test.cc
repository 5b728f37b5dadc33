// A saved state is loaded by any number of ranks.
#include "trainer/checkpoint/saver.h"

#include <gmock/gmock.h>

#include <barrier>
#include <random>
#include <thread>

#include "tests/trainer/checkpoint/checkpoint_fixture.h"
#include "tests/trainer/checkpoint/layouts.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Saver, SavesAndLoads) {
  const CheckpointFolder folder;
  SmallState state(7);
  const SaveOutcome outcome = SaveCheckpoint(
      {.folder = folder.path() + "/a/b"}, state.Dict(),
      {.step = 7, .attempt = "x", .run = R"({"epoch": 1.5, "list": [1, 2]})", .score = 0.1});
  ASSERT_FALSE(outcome.error) << outcome.error->what;
  EXPECT_EQ(outcome.path, folder.path() + "/a/b/step-7");
  EXPECT_EQ(fs::read_symlink(folder.path() + "/a/b/latest"), "step-7");
  const Checkpoint checkpoint = ValueOrThrow(Checkpoint::Open(outcome.path));
  EXPECT_EQ(checkpoint.step(), 7);
  EXPECT_EQ(checkpoint.score(), 0.1);
  EXPECT_EQ(checkpoint.run(), R"({"epoch":1.5,"list":[1,2]})");
  EXPECT_THAT(checkpoint.aliases(), ElementsAre(testing::Pair("model.tied", "model.weight")));
  EXPECT_TRUE(HasSmallState(checkpoint));
  EXPECT_TRUE(at::equal(checkpoint.Read("model.strided"), state.strided));
  EXPECT_TRUE(at::equal(checkpoint.Read("model.tied"), state.weight));
  // Any tool opens a shard.
  const SafetensorsFile shard(outcome.path + "/shard-00000-of-00001.safetensors");
  EXPECT_TRUE(at::equal(shard.Get("model.half"), state.half));
}

// All ranks save at the same time.
std::vector<SaveOutcome> SaveAll(const std::string& folder,
                                 std::vector<StateDict> states,
                                 int64_t step = 1,
                                 double deadline = 60) {
  std::vector<SaveOutcome> outcomes(states.size());
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < states.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      const RankPart part{.rank = static_cast<int64_t>(rank),
                          .size = static_cast<int64_t>(states.size())};
      outcomes[rank] = SaveCheckpoint({.folder = folder, .part = part, .deadline = deadline},
                                      states[rank], {.step = step, .attempt = "x"});
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return outcomes;
}

// Loads on all ranks at the same time; what the first one threw.
std::string LoadAll(const Checkpoint& checkpoint, Layout& layout) {
  std::vector<std::string> said(layout.size()), thrown(layout.size());
  std::barrier<> all_have_said(static_cast<std::ptrdiff_t>(layout.size()));
  std::vector<std::jthread> ranks;
  for (size_t rank = 0; rank < layout.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      thrown[rank] = ThrownText([&] {
        checkpoint.Load(OwnersOf(layout[rank]), [&](const std::string& own) {
          said[rank] = own;
          all_have_said.arrive_and_wait();
          return said;
        });
      });
    });
  }
  ranks.clear();
  for (const std::string& text : thrown) EXPECT_EQ(text, thrown[0]);
  return thrown[0];
}

std::vector<StateDict> StatesOf(Layout& layout) {
  std::vector<StateDict> states;
  for (auto& parts : layout) states.push_back(SaveState(OwnersOf(parts)));
  return states;
}

TEST(Saver, LoadsAnyLayoutFromAnyOther) {
  int64_t all_bytes = 0;
  for (const auto& [name, whole] : WholeTensors()) {
    all_bytes += static_cast<int64_t>(whole.nbytes());
  }
  std::mt19937_64 random(1);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const CheckpointFolder folder;
    Layout saved = LayoutMaker(seed, 1 + static_cast<int64_t>(random() % 6)).Make();
    FillParts(saved);
    const std::vector<SaveOutcome> outcomes = SaveAll(folder.path(), StatesOf(saved));
    for (const SaveOutcome& outcome : outcomes) {
      ASSERT_FALSE(outcome.error) << outcome.error->what;
    }
    const Checkpoint checkpoint = ValueOrThrow(Checkpoint::Open(folder.path() + "/step-1"));
    EXPECT_EQ(outcomes[0].bytes, checkpoint.bytes());
    for (const auto& [name, whole] : WholeTensors()) {
      EXPECT_TRUE(at::equal(checkpoint.Read("model." + name), whole)) << name;
    }
    int64_t written = 0;
    for (const auto& entry : fs::directory_iterator(checkpoint.path())) {
      if (entry.path().extension() != ".safetensors") continue;
      const SafetensorsFile shard(entry.path().string());
      for (const auto& [name, tensor] : shard.entries()) {
        written += tensor.end - tensor.begin;
      }
    }
    EXPECT_EQ(written, all_bytes);
    Layout loaded = LayoutMaker(seed + 1000, 1 + static_cast<int64_t>(random() % 6)).Make();
    EXPECT_EQ(LoadAll(checkpoint, loaded), "nothing was thrown");
    EXPECT_EQ(WrongPart(loaded, -1), "");
  }
}

// What one of several ranks has of its own.
struct OwnState {
  at::Tensor error = at::zeros({2, 3}, at::kBFloat16);
  at::Tensor count = at::zeros({}, at::kLong);
  RankPart own = {};

  void Name(StateVisitor& visitor) {
    visitor.Section("hook.", own);
    visitor.Tensor("error", error);
    visitor.Tensor("count", count);
  }
};

// Saves the states of so many ranks, whose numbers are 0, 1, ... Returns the checkpoint.
Checkpoint SaveOwn(const std::string& folder, int64_t ranks) {
  std::vector<OwnState> all(static_cast<size_t>(ranks));
  std::vector<StateDict> states;
  for (OwnState& state : all) {
    state.own = {.rank = std::ssize(states), .size = ranks};
    state.error.fill_(state.own.rank);
    state.count.fill_(5 + state.own.rank);
    states.push_back(SaveState([&](StateVisitor& visitor) { state.Name(visitor); }));
  }
  EXPECT_FALSE(SaveAll(folder, states)[0].error);
  return ValueOrThrow(Checkpoint::Open(folder + "/step-1"));
}

TEST(Saver, GivesOtherRanksTheMeanOfWhatEachHad) {
  for (const int64_t saved : {1, 2, 4}) {
    const CheckpointFolder folder;
    const Checkpoint checkpoint = SaveOwn(folder.path(), saved);
    for (const int64_t ranks : {1, 2, 3, 4}) {
      OwnState state = {.own = {.rank = ranks - 1, .size = ranks}};
      const bool averaged = checkpoint.Load([&](StateVisitor& visitor) { state.Name(visitor); });
      const bool alike = ranks == saved;
      EXPECT_EQ(averaged, !alike);
      const double mean = static_cast<double>(saved - 1) / 2;
      const double expected = alike ? static_cast<double>(ranks - 1) : mean;
      EXPECT_TRUE(state.error.eq(expected).all().item<bool>()) << saved << " to " << ranks;
      EXPECT_EQ(state.count.item<int64_t>(), alike ? 4 + ranks : 5);
    }
    // Not what a section without ranks of its own gets, nor a tensor of another shape or type.
    for (auto& [dtype, shape] : std::vector<std::pair<at::ScalarType, std::vector<int64_t>>>{
             {at::kBFloat16, {3, 3}}, {at::kFloat, {2, 3}}, {at::kBFloat16, {2, 2, 3}}}) {
      OwnState state = {.error = at::zeros(shape, dtype), .own = {.rank = 0, .size = 3}};
      EXPECT_THROW(checkpoint.Load([&](StateVisitor& visitor) { state.Name(visitor); }), Failure);
    }
    if (saved == 1) continue;
    OwnState state;
    EXPECT_THROW(checkpoint.Load([&](StateVisitor& visitor) {
      visitor.Section("hook.");
      visitor.Tensor("error", state.error);
      visitor.Tensor("count", state.count);
    }),
                 Failure);
  }
}

// Two ranks' parts of six elements, each with where it begins.
TEST(Saver, RefusesPartsThatAreNotTheWhole) {
  const auto save = [](StateSlice first, StateSlice second, at::IntArrayRef sizes) {
    const CheckpointFolder folder;
    const auto state = [&](const StateSlice& slice) {
      const at::Tensor part = at::zeros(sizes);
      return SaveState([&](StateVisitor& visitor) {
        visitor.Section("model.", {}, {.rank = 0, .size = 1});
        visitor.Tensor("w", part, {{.slice = slice}});
      });
    };
    const auto outcomes = SaveAll(folder.path(), {state(first), state(second)});
    EXPECT_FALSE(ValueOrThrow(OpenNewest(folder.path())).checkpoint);
    return outcomes[0].error ? outcomes[0].error->what : "it was saved";
  };
  const auto flat = [](int64_t begin) {
    return StateSlice{.global_shape = {2, 3}, .offset = {begin}, .flat = true};
  };
  const auto column = [](int64_t begin) {
    return StateSlice{.global_shape = {2, 3}, .offset = {0, begin}};
  };
  EXPECT_THAT(save(flat(0), flat(3), {2}), HasSubstr("\"model.w\" is not there as a whole"));
  EXPECT_THAT(save(flat(0), flat(3), {4}), HasSubstr("\"model.w\" has two pieces that overlap"));
  EXPECT_THAT(save(column(0), column(2), {2, 1}), HasSubstr("\"model.w\" is not there as a whole"));
  EXPECT_THAT(save(column(0), column(1), {2, 2}),
              HasSubstr("\"model.w\" has two pieces that overlap"));
  StateSlice other = flat(3);
  other.global_shape = {3, 2};
  EXPECT_THAT(save(flat(0), other, {3}), HasSubstr("\"model.w\" in different types or shapes"));
}

StateDict NumbersOf(std::map<std::string, int64_t> numbers) {
  return {.tensors = {}, .numbers = std::move(numbers)};
}

TEST(Saver, KeepsTheNumbersOfAllRanks) {
  const CheckpointFolder folder;
  for (const SaveOutcome& outcome :
       SaveAll(folder.path(), {NumbersOf({{"a", 1}, {"b", 2}}), NumbersOf({{"b", 2}, {"c", 3}})})) {
    ASSERT_FALSE(outcome.error) << outcome.error->what;
  }
  const Checkpoint checkpoint = ValueOrThrow(Checkpoint::Open(folder.path() + "/step-1"));
  EXPECT_THAT(checkpoint.numbers(),
              ElementsAre(testing::Pair("a", 1), testing::Pair("b", 2), testing::Pair("c", 3)));
  const auto outcomes = SaveAll(folder.path(), {NumbersOf({{"a", 1}}), NumbersOf({{"a", 2}})}, 2);
  for (const SaveOutcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.error);
    EXPECT_THAT(outcome.error->what, HasSubstr("\"a\" in different numbers: 1 and 2"));
  }
}

TEST(Saver, SharesOutWhatAllRanksHave) {
  const CheckpointFolder folder;
  SmallState state(3);
  for (const int64_t ranks : {2, 3, 5}) {
    for (const SaveOutcome& outcome :
         SaveAll(folder.path(), std::vector<StateDict>(ranks, state.Dict()), ranks)) {
      ASSERT_FALSE(outcome.error) << outcome.error->what;
    }
    const Checkpoint checkpoint =
        ValueOrThrow(Checkpoint::Open(folder.path() + "/step-" + std::to_string(ranks)));
    SmallState loaded(-1);
    checkpoint.Load(loaded.Owners());
    EXPECT_TRUE(loaded == state) << ranks;
  }
}

}  // namespace
}  // namespace ddprun::trainer
