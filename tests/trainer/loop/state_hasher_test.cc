// A flipped bit in a gradient or a weight of one rank is found, with its step, tensor and rank.
#include "trainer/loop/state_hasher.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tests/trainer/data/scratch_folder.h"
#include "tests/trainer/strategies/strategy_fixture.h"
#include "trainer/report/compare_runs.h"
#include "trainer/report/state_hashes.h"

namespace ddprun::trainer {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kSteps = 5;
constexpr std::array<const char*, 2> kNames = {"first", "second"};

// One bit to flip, in the tensor of `name` that is hashed.
struct Flip {
  int rank = 0;
  int64_t step = 0;
  std::string name = {};
};

void FlipBit(const at::Tensor& tensor, uint64_t seed) {
  auto* bytes = static_cast<char*>(tensor.mutable_data_ptr());
  const uint64_t bit = std::mt19937_64(seed)() % (8 * tensor.nbytes());
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
}

// A run of kRanks, whose gradients and weights are drawn from the step; leaves its hashes.
std::string HashRun(const ScratchFolder& folder, const std::string& name, const Flip& flip = {}) {
  const std::string run = folder.Path(name);
  folder.Write(name + "/config.resolved.json", R"({"run": {"name": "x", "seed": 1}})");
  WithGroup(kRanks, [&](const auto& group, int rank) {
    std::vector<NamedParameter> parameters;
    for (const char* parameter : kNames) parameters.push_back({parameter, Random({50}, 1)});
    for (const NamedParameter& one : parameters) one.tensor.requires_grad_();
    const GivenModel model(parameters);
    StateHasher hasher(model, Mesh(group));
    Observers observers;
    Observer nobody;
    if (rank == 0) {
      observers.Add(std::make_unique<StateHashFile>(run + "/" + kStateHashesName, nobody));
      observers.Notify(&Observer::OnBegin, RunHeader());
    }
    for (int64_t step = 1; step <= kSteps; ++step) {
      std::vector<at::Tensor> gradients;
      for (const NamedParameter& one : parameters) {
        const auto seed = static_cast<uint64_t>(step);
        gradients.push_back(Random({50}, seed).detach());
        one.tensor.data().copy_(Random({50}, 100 + seed).detach());
        if (rank != flip.rank || step != flip.step) continue;
        if (flip.name == "gradient of " + one.name) FlipBit(gradients.back(), seed);
        if (flip.name == one.name) FlipBit(one.tensor.data(), seed);
      }
      hasher.HashGradients(gradients);
      hasher.HashWeights(step, rank == 0 ? &observers : nullptr);
    }
  });
  return run;
}

TEST(StateHasher, EqualRunsAreEqual) {
  const ScratchFolder folder;
  const auto compared = CompareHashes(HashRun(folder, "a"), HashRun(folder, "b"));
  ASSERT_TRUE(compared.has_value());
  EXPECT_EQ(compared->steps, kSteps);
  EXPECT_FALSE(compared->first.has_value());
  EXPECT_EQ(compared->other_names, "");
  EXPECT_FALSE(CompareRanks(folder.Path("a")).has_value());
}

TEST(StateHasher, AFlippedBitIsFoundWithStepTensorAndRank) {
  const ScratchFolder folder;
  const std::string good = HashRun(folder, "good");
  int number = 0;
  for (const Flip& flip : {Flip{1, 3, "gradient of second"}, Flip{0, 4, "first"},
                           Flip{2, 1, "second"}, Flip{0, 5, "gradient of first"}}) {
    const std::string bad = HashRun(folder, "bad" + std::to_string(number++), flip);
    const auto compared = CompareHashes(good, bad);
    ASSERT_TRUE(compared && compared->first) << flip.name;
    EXPECT_EQ(compared->first->step, flip.step);
    EXPECT_EQ(compared->first->tensor, flip.name);
    EXPECT_EQ(compared->first->rank, flip.rank);
    EXPECT_EQ(compared->first->tensors, 1);
    // Within the run: the first rank that is not as rank 0.
    const auto ranks = CompareRanks(bad);
    ASSERT_TRUE(ranks.has_value()) << flip.name;
    EXPECT_EQ(ranks->step, flip.step);
    EXPECT_EQ(ranks->tensor, flip.name);
    EXPECT_EQ(ranks->rank, flip.rank == 0 ? 1 : flip.rank);
  }
}

TEST(StateHasher, OtherModelsAndBrokenLinesAreSaid) {
  const ScratchFolder folder;
  const std::string a = folder.Path("a");
  const std::string b = folder.Path("b");
  const std::string step = R"({"step":1,"total":"","hashes":"0000000100000002"})";
  folder.Write(std::string("a/") + kStateHashesName, R"({"ranks":2,"names":["x","y"]})"
                                                     "\n" +
                                                         step + "\n{\"step\":2,\"ha");
  folder.Write(std::string("b/") + kStateHashesName, R"({"ranks":2,"names":["x","z"]})"
                                                     "\n" +
                                                         step + "\n");
  const auto compared = CompareHashes(a, b);
  ASSERT_TRUE(compared.has_value());
  EXPECT_EQ(compared->steps, 1);
  EXPECT_EQ(compared->other_names, "y");
  EXPECT_FALSE(CompareHashes(a, folder.Path("none")).has_value());
}

TEST(StateHasher, ConfigsAreComparedByKey) {
  const ScratchFolder folder;
  folder.Write("a/config.resolved.json", R"({"run": {"name": "a", "seed": 1}, "data": {"x": []}})");
  folder.Write("b/config.resolved.json",
               R"({"run": {"name": "b", "seed": 2, "more": "m"}, "data": {"x": []}})");
  const auto differences = CompareConfigs(folder.Path("a"), folder.Path("b"));
  ASSERT_TRUE(differences.has_value());
  ASSERT_EQ(differences->size(), 2U);
  EXPECT_EQ((*differences)[0].key, "run.more");
  EXPECT_EQ((*differences)[0].first, "");
  EXPECT_EQ((*differences)[1].key, "run.seed");
  EXPECT_EQ((*differences)[1].second, "2");
  EXPECT_FALSE(CompareConfigs(folder.Path("a"), folder.Path("none")).has_value());
}

}  // namespace
}  // namespace ddprun::trainer
