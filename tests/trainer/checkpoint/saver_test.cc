// What is saved is loaded, whatever the number of ranks was and is.
#include "trainer/checkpoint/saver.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/trainer/checkpoint/checkpoint_fixture.h"

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

// Rows [begin, end) of ten, as a rank's own part.
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
};

at::Tensor WholeTable() {
  return at::arange(10 * 4 * 6, at::kFloat).reshape({10, 4, 6});
}

class SlicesOwner {
 public:
  // `columns`: cuts the second dimension, too.
  SlicesOwner(std::vector<Slice> slices, Slice columns = {0, 4}) {
    for (const Slice& slice : slices) {
      StateTensor part{.name = "w", .global_shape = {10, 4, 6}};
      part.tensor = at::full({slice.end - slice.begin, columns.end - columns.begin, 6}, -1.0);
      part.offset = {slice.begin, columns.begin, 0};
      parts_.push_back(std::move(part));
    }
  }

  StateDict Dict() {
    StateDict dict;
    dict.tensors = parts_;
    return dict;
  }
  // Fills them from the whole; padding with 77.
  void Fill() {
    Each([](at::Tensor part, const at::Tensor& whole) { part.copy_(whole); });
  }
  bool IsRight() {
    bool right = true;
    Each([&](at::Tensor part, const at::Tensor& whole) { right &= at::equal(part, whole); });
    return right;
  }
  std::vector<StateTensor>& parts() { return parts_; }

 private:
  void Each(const std::function<void(at::Tensor, const at::Tensor&)>& call) {
    const at::Tensor padded = at::cat({WholeTable(), at::full({10, 4, 6}, -1.0)});
    for (StateTensor& part : parts_) {
      call(part.tensor, padded.narrow(0, part.offset[0], part.tensor.size(0))
                            .narrow(1, part.offset[1], part.tensor.size(1)));
    }
  }

  std::vector<StateTensor> parts_;
};

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

TEST(Saver, LoadsSlicesFromAnySlices) {
  const std::vector<std::vector<std::vector<Slice>>> layouts = {
      {{{0, 10}}},                          // one rank
      {{{0, 1}}, {{1, 9}}, {{9, 10}}},      // very uneven
      {{{0, 4}}, {{4, 8}}, {{8, 12}}},      // padding
      {{{0, 2}, {6, 7}}, {{2, 6}}, {{7, 10}}, {}},  // several parts, and none
      {{{0, 5}}, {{5, 10}}, {{10, 10}}}};   // an empty one
  for (const auto& saved : layouts) {
    const CheckpointFolder folder;
    std::vector<StateDict> states;
    for (const auto& slices : saved) {
      SlicesOwner owner(slices);
      owner.Fill();
      states.push_back(owner.Dict());
    }
    for (const SaveOutcome& outcome : SaveAll(folder.path(), states)) {
      ASSERT_FALSE(outcome.error) << outcome.error->what;
    }
    const Checkpoint checkpoint = ValueOrThrow(Checkpoint::Open(folder.path() + "/step-1"));
    EXPECT_TRUE(at::equal(checkpoint.Read("w"), WholeTable()));
    for (const auto& loaded : layouts) {
      for (const auto& slices : loaded) {
        for (const Slice columns : {Slice{0, 4}, Slice{1, 3}}) {
          SlicesOwner owner(slices, columns);
          for (StateTensor& part : owner.parts()) {
            const int64_t rows =
                std::min<int64_t>(part.tensor.size(0), std::max<int64_t>(10 - part.offset[0], 0));
            if (rows > 0) {
              checkpoint.ReadInto("w", part.offset, part.tensor.narrow(0, 0, rows));
            }
          }
          EXPECT_TRUE(owner.IsRight());
        }
      }
    }
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
