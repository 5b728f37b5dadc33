// The configs that come with ddprun.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "trainer/config/read_config.h"

namespace ddprun::trainer {
namespace {

const std::filesystem::path kConfigs = std::filesystem::path(DDPRUN_SOURCE_DIR) / "configs";

Config MustRead(const std::filesystem::path& path) {
  Result<Config> config = ReadConfig(path.string(), {}, {});
  EXPECT_TRUE(config.has_value()) << Render(config.error());
  return config.has_value() ? *config : Config();
}

TEST(ShippedConfigs, AreFreeOfErrors) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kConfigs)) {
    // configs/slurm has batch files, which tests/launcher/submit reads.
    if (!entry.is_regular_file() || entry.path().extension() == ".sbatch") continue;
    if (entry.path().string().starts_with((kConfigs / "examples/data").string())) continue;
    EXPECT_EQ(entry.path().extension(), ".json") << entry.path();
    MustRead(entry.path());
    ++count;
  }
  EXPECT_GE(count, 17U);
}

// PyTorch's scripts do not clip, decay or change the learning rate unless they say so.
TEST(ShippedConfigs, OfSeedsTrainAsPlainScriptsDo) {
  std::vector<std::filesystem::path> paths = {kConfigs / "bert_mnli.json"};
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs / "seeds")) {
    paths.push_back(entry.path());
  }
  for (const auto& path : paths) {
    const Config config = MustRead(path);
    EXPECT_EQ(config.training.max_grad_norm, 0) << path;
    EXPECT_EQ(config.optimizer.weight_decay, 0) << path;
    EXPECT_EQ(config.scheduler.lr_scheduler_type, LrSchedulerType::kConstant) << path;
  }
}

}  // namespace
}  // namespace ddprun::trainer
