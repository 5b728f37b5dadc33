#include <gtest/gtest.h>

#include <vector>

#include "base/text.h"

namespace ddprun {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(EditDistance("nnodes", "nnodes"), 0u);
  EXPECT_EQ(EditDistance("nodes", "nnodes"), 1u);
  EXPECT_EQ(EditDistance("nnodse", "nnodes"), 1u);
  EXPECT_EQ(EditDistance("abc", ""), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(FindNearest, FindsTheMeantWord) {
  const std::vector<std::string> names = {"nnodes", "node_rank", "master_port"};
  EXPECT_EQ(FindNearest("master_prt", names), "master_port");
  EXPECT_EQ(FindNearest("nodes", names), "nnodes");
  EXPECT_EQ(FindNearest("MASTER_PORT", names), "master_port");
}

TEST(FindNearest, IsSilentWhenNothingIsNear) {
  const std::vector<std::string> names = {"nnodes", "["};
  EXPECT_EQ(FindNearest("bucket", names), std::nullopt);
  EXPECT_EQ(FindNearest("x", names), std::nullopt);
  EXPECT_EQ(FindNearest("batch", std::vector<std::string>{"path"}), std::nullopt);
  EXPECT_EQ(FindNearest("fp16", std::vector<std::string>{"fp32"}), std::nullopt);
  EXPECT_EQ(FindNearest("", names), std::nullopt);
  EXPECT_EQ(FindNearest("nnodes", {}), std::nullopt);
}

TEST(FindNearestFile, TakesAnotherExtensionOfTheMeantName) {
  const std::vector<std::string> files = {"fp32.txt", "train.csv", ".train.swp", "model.tar.gz"};
  EXPECT_EQ(FindNearestFile("trian.csv", files), "train.csv");
  EXPECT_EQ(FindNearestFile("trian.parquet", files), "train.csv");
  EXPECT_EQ(FindNearestFile("model", files), "model.tar.gz");
  EXPECT_EQ(FindNearestFile("fp16.txt", files), "fp32.txt");
  EXPECT_EQ(FindNearestFile("fp16.csv", files), std::nullopt);
  EXPECT_EQ(FindNearestFile(".", files), std::nullopt);
}

}  // namespace
}  // namespace ddprun
