#include "trainer/data/random_dataset.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/failure.h"
#include "tests/golden/golden_file.h"

namespace ddprun::trainer {
namespace {

TEST(RandomDataset, EqualsPyTorchBitForBit) {
  const nlohmann::json golden = golden::Read("random_dataset.json");
  for (const nlohmann::json& golden_case : golden.at("cases")) {
    const at::Tensor inputs = golden::FloatTensor(golden_case.at("inputs"));
    const at::Tensor targets = golden::FloatTensor(golden_case.at("targets"));
    const RandomDataset dataset({.num_samples = inputs.size(0),
                                 .input_size = inputs.size(1),
                                 .target_size = targets.size(1),
                                 .seed = golden_case.at("seed")});
    ASSERT_EQ(dataset.size(), inputs.size(0));
    for (int64_t i = 0; i < dataset.size(); ++i) {
      const Batch batch = dataset.Get(std::vector<int64_t>{i});
      EXPECT_TRUE(batch.inputs[0].equal(inputs[i])) << "inputs of sample " << i;
      EXPECT_TRUE(batch.targets[0].equal(targets[i])) << "targets of sample " << i;
    }
  }
}

TEST(RandomDataset, GivesABatchInTheOrderAskedFor) {
  const RandomDataset dataset({.num_samples = 5, .input_size = 3, .target_size = 2});
  const Batch batch = dataset.Get(std::vector<int64_t>{4, 0, 4});
  EXPECT_EQ(batch.samples, 3);
  EXPECT_TRUE(batch.inputs[0].equal(batch.inputs[2]));
  EXPECT_TRUE(batch.inputs[1].equal(dataset.Get(std::vector<int64_t>{0}).inputs[0]));
}

TEST(RandomDataset, RefusesSizesOfZero) {
  EXPECT_THROW(RandomDataset({.num_samples = 0, .input_size = 3, .target_size = 2}), Failure);
  EXPECT_THROW(RandomDataset({.num_samples = 4, .input_size = 3, .target_size = 0}), Failure);
}

}  // namespace
}  // namespace ddprun::trainer
