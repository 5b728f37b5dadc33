// Rank 0 gets whole tensors of any layout, and ranks get their parts of what it has.
#include "trainer/parallel/whole_state.h"

#include <gmock/gmock.h>

#include <map>
#include <mutex>

#include "base/failure.h"
#include "tests/trainer/checkpoint/layouts.h"
#include "tests/trainer/strategies/strategy_fixture.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::map<std::string, at::Tensor> WholesByName() {
  std::map<std::string, at::Tensor> wholes;
  for (const auto& [name, whole] : WholeTensors()) wholes["model." + name] = whole;
  return wholes;
}

TEST(WholeState, IsGatheredFromAnyLayout) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Layout layout = LayoutMaker(seed, 4).Make();
    FillParts(layout);
    WithGroup(4, [&](const auto& group, int rank) {
      StateDict state = SaveState(OwnersOf(layout[static_cast<size_t>(rank)]));
      state.tensors.push_back(
          {.name = "optimizer.x", .tensor = at::zeros({1}), .global_shape = {1}, .offset = {0}});
      std::map<std::string, at::Tensor> found;
      GatherWhole(state, "model.", group.get(),
                  [&](const auto& name, const auto& whole) { found[name] = whole.clone(); });
      const auto wanted = WholesByName();
      ASSERT_EQ(found.size(), rank == 0 ? wanted.size() : 0);
      for (const auto& [name, whole] : found) {
        // Bit for bit: negative zero is not zero.
        EXPECT_TRUE(at::equal(whole, wanted.at(name))) << name;
        EXPECT_TRUE(at::equal(at::signbit(whole), at::signbit(wanted.at(name)))) << name;
      }
    });
  }
}

TEST(WholeState, IsHandedOutToAnyLayout) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Layout layout = LayoutMaker(seed, 4).Make();
    WithGroup(4, [&](const auto& group, int rank) {
      const auto wholes = rank == 0 ? WholesByName() : std::map<std::string, at::Tensor>();
      DistributeWhole(SaveState(OwnersOf(layout[static_cast<size_t>(rank)])), group.get(),
                      [&](const std::string& name) { return wholes.at(name); });
    });
    EXPECT_EQ(WrongPart(layout, -1), "");
  }
}

TEST(WholeState, IsThereOfOneProcess) {
  Layout layout = LayoutMaker(1, 1).Make();
  const auto wholes = WholesByName();
  DistributeWhole(SaveState(OwnersOf(layout[0])), nullptr,
                  [&](const std::string& name) { return wholes.at(name); });
  EXPECT_EQ(WrongPart(layout, -1), "");
  size_t taken = 0;
  GatherWhole(SaveState(OwnersOf(layout[0])), "", nullptr,
              [&](const auto& name, const auto& whole) {
                EXPECT_TRUE(at::equal(whole, wholes.at(name)));
                ++taken;
              });
  EXPECT_EQ(taken, wholes.size());
}

TEST(WholeState, IsRefusedWhereItIsNotWhole) {
  WithGroup(2, [](const auto& group, int rank) {
    const auto gather = [&](int64_t elements, std::vector<int64_t> shape) -> std::string {
      const at::Tensor part = at::ones({elements});
      const auto state = SaveState([&](StateVisitor& visitor) {
        visitor.Section("", {}, {.rank = 0, .size = 1});
        visitor.Tensor("w", part,
                       {{.slice = {.global_shape = shape, .offset = {3 * rank}, .flat = true}}});
      });
      try {
        GatherWhole(state, "", group.get(), [](const auto&, const auto&) {});
      } catch (const Failure& failure) {
        return failure.error().what;
      }
      return "";
    };
    EXPECT_EQ(gather(3, {2, 3}), "");
    EXPECT_THAT(gather(2, {2, 3}), HasSubstr("\"w\" has 6 elements, but all ranks' parts"));
    EXPECT_THAT(gather(3, {2 + rank, 3}), HasSubstr("\"w\" has different types or shapes"));
  });
}

TEST(ExchangeTexts, GivesAllToAll) {
  WithGroup(3, [](const auto& group, int rank) {
    EXPECT_THAT(ExchangeTexts(group.get(), std::string(static_cast<size_t>(rank) * 2, 'x')),
                ElementsAre("", "xx", "xxxx"));
    EXPECT_THAT(ExchangeTexts(group.get(), ""), ElementsAre("", "", ""));
  });
  EXPECT_THAT(ExchangeTexts(nullptr, "a"), ElementsAre("a"));
}

}  // namespace
}  // namespace ddprun::trainer
