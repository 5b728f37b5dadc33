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

TEST(Nearest, FindsTheMeantWord) {
  const std::vector<std::string> names = {"nnodes", "node_rank", "master_port"};
  EXPECT_EQ(Nearest("master_prt", names), "master_port");
  EXPECT_EQ(Nearest("nodes", names), "nnodes");
  EXPECT_EQ(Nearest("MASTER_PORT", names), "master_port");
}

TEST(Nearest, IsSilentWhenNothingIsNear) {
  const std::vector<std::string> names = {"nnodes", "["};
  EXPECT_EQ(Nearest("bucket", names), std::nullopt);
  EXPECT_EQ(Nearest("x", names), std::nullopt);
  EXPECT_EQ(Nearest("batch", std::vector<std::string>{"path"}), std::nullopt);
  EXPECT_EQ(Nearest("fp16", std::vector<std::string>{"fp32"}), std::nullopt);
  EXPECT_EQ(Nearest("", names), std::nullopt);
  EXPECT_EQ(Nearest("nnodes", {}), std::nullopt);
}

TEST(NearestFile, TakesAnotherExtensionOfTheMeantName) {
  const std::vector<std::string> files = {"fp32.txt", "train.csv", ".train.swp", "model.tar.gz"};
  EXPECT_EQ(NearestFile("trian.csv", files), "train.csv");
  EXPECT_EQ(NearestFile("trian.parquet", files), "train.csv");
  EXPECT_EQ(NearestFile("model", files), "model.tar.gz");
  EXPECT_EQ(NearestFile("fp16.txt", files), "fp32.txt");
  EXPECT_EQ(NearestFile("fp16.csv", files), std::nullopt);
  EXPECT_EQ(NearestFile(".", files), std::nullopt);
}

}  // namespace
}  // namespace ddprun
