#include "trainer/report/run_folder.h"

#include <gtest/gtest.h>

#include "tests/trainer/report/scratch_folder.h"
#include "trainer/config/config_text.h"

namespace ddprun::trainer {
namespace {

constexpr double kStart = 1795228200;  // 2026-11-21 02:30:00 UTC

using RunFolderTest = ScratchFolder;

TEST(RunName, IsTheUtcTimeOfTheStart) {
  EXPECT_EQ(RunName(kStart), "2026-11-21T02-30-00");
}

TEST(ConfigHash, TellsTextsApart) {
  EXPECT_EQ(ConfigHash(""), "cbf29ce484222325");   // the offset basis of FNV-1a
  EXPECT_EQ(ConfigHash("a"), "af63dc4c8601ec8c");  // test vector of the FNV reference code
}

TEST_F(RunFolderTest, ANamelessRunIsCalledByItsTime) {
  Config config;
  config.run.output_dir = folder_ + "/runs/{name}";
  const Result<RunFolder> made = MakeRunFolder(config, kStart);
  ASSERT_TRUE(made.has_value()) << Render(made.error());
  EXPECT_EQ(made->path, folder_ + "/runs/2026-11-21T02-30-00");
  EXPECT_EQ(made->name, "2026-11-21T02-30-00");
}

TEST_F(RunFolderTest, KeepsTheConfigThatWasUsed) {
  Config config;
  config.run.name = "first";
  config.run.output_dir = folder_ + "/{name}";
  const Result<RunFolder> made = MakeRunFolder(config, kStart);
  ASSERT_TRUE(made.has_value()) << Render(made.error());
  EXPECT_EQ(Contents(folder_ + "/first/config.resolved.json"), WriteResolvedConfig(config));
  EXPECT_EQ(made->config_hash, ConfigHash(WriteResolvedConfig(config)));
}

TEST_F(RunFolderTest, AnExistingFolderIsNotTouched) {
  Config config;
  config.run.output_dir = folder_ + "/fixed/";
  for (const char* expected : {"/fixed", "/fixed-2", "/fixed-3"}) {
    const Result<RunFolder> made = MakeRunFolder(config, kStart);
    ASSERT_TRUE(made.has_value()) << Render(made.error());
    EXPECT_EQ(made->path, folder_ + expected);
  }
}

TEST_F(RunFolderTest, AFileInTheWayIsAnError) {
  std::ofstream(folder_ + "/file") << "x";
  Config config;
  config.run.output_dir = folder_ + "/file/run";
  const Result<RunFolder> made = MakeRunFolder(config, kStart);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().page, "run-folder");
  EXPECT_EQ(made.error().what, "Making " + folder_ + "/file: Not a directory.");
}

TEST_F(RunFolderTest, IsFoundAgainByItsJob) {
  const std::vector<std::string> first = {"ddprun a", "elastic x"};
  const std::vector<std::string> second = {"ddprun b"};
  const std::vector<std::string> other = {"ddprun c"};
  for (const char* where : {"/runs/{name}", "/fixed/", "/in/{name}/out", "/some-{name}-runs"}) {
    Config config;
    config.run.output_dir = folder_ + where;
    EXPECT_EQ(FindRunFolder(config, first), "");
    const Result<RunFolder> one = MakeRunFolder(config, kStart, first);
    const Result<RunFolder> two = MakeRunFolder(config, kStart, second);
    ASSERT_TRUE(one.has_value() && two.has_value());
    EXPECT_EQ(FindRunFolder(config, first), one->path);
    EXPECT_EQ(FindRunFolder(config, std::vector<std::string>{"elastic x"}), one->path);
    EXPECT_EQ(FindRunFolder(config, second), two->path);
    EXPECT_EQ(FindRunFolder(config, other), "");
    EXPECT_EQ(FindRunFolder(config, {}), "");
  }
}

TEST_F(RunFolderTest, IsTheNewestOfSeveralJobsOfOneName) {
  const std::vector<std::string> elastic = {"elastic x"};
  for (const char* where : {"/runs/{name}", "/in/{name}/out"}) {
    Config config;
    config.run.name = "gpt";
    config.run.output_dir = folder_ + where;
    std::string last;
    for (int i = 0; i < 11; ++i) last = MakeRunFolder(config, kStart, elastic)->path;
    EXPECT_EQ(FindRunFolder(config, elastic), last);
  }
}

TEST_F(RunFolderTest, IsOfOneRunAtATime) {
  Config config;
  config.run.name = "first";
  config.run.output_dir = folder_ + "/{name}";
  Result<RunFolder> made = MakeRunFolder(config, kStart);
  ASSERT_TRUE(made.has_value());
  config.run.name = "second";
  config.run.max_steps = 7;
  const auto take_up = [&] {
    return TakeUpRunFolder(folder_ + "/first", config, {}, std::chrono::milliseconds(1));
  };
  const Result<RunFolder> refused = take_up();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().page, "run-in-use");
  made->lock.reset();
  const Result<RunFolder> taken = take_up();
  ASSERT_TRUE(taken.has_value()) << Render(taken.error());
  EXPECT_EQ(taken->name, "first");
  config.run.name = "first";
  EXPECT_EQ(Contents(folder_ + "/first/config.resolved.json"), WriteResolvedConfig(config));
}

}  // namespace
}  // namespace ddprun::trainer
