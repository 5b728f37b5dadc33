#include "trainer/report/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/failure.h"
#include "tests/trainer/report/scratch_folder.h"
#include "trainer/config/config_text.h"
#include "trainer/report/checkpoint_owner.h"

namespace ddprun::trainer {
namespace {

constexpr double kStart = 1795228200;  // 2026-11-21 02:30:00 UTC

namespace fs = std::filesystem;

class RunFolderTest : public ScratchFolder {
 protected:
  static RunFolder Make(const Config& config, const std::vector<std::string>& jobs = {}) {
    RunFolder folder = ValueOrThrow(MakeRunFolder(config, kStart));
    ThrowIfError(KeepRunFolder(folder, config, jobs));
    return folder;
  }
};

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
  const RunFolder made = Make(config);
  EXPECT_EQ(Contents(folder_ + "/first/config.resolved.json"), WriteResolvedConfig(config));
  EXPECT_EQ(made.config_hash, ConfigHash(WriteResolvedConfig(config)));
}

TEST_F(RunFolderTest, KeepsWhereItsCheckpointsAreAndWhatItBeganFrom) {
  Config config;
  config.run.output_dir = folder_ + "/toy";
  config.run.resume = "other/step-3";
  config.checkpoint.dir = fs::relative(folder_) / "shared";
  RunFolder folder = ValueOrThrow(MakeRunFolder(config, kStart, config.run.resume));
  ThrowIfError(KeepRunFolder(folder, config, {}));
  folder.lock.reset();
  folder.checkpoints_lock.reset();
  const std::string kept = Contents(folder_ + "/toy/config.resolved.json");
  EXPECT_THAT(kept, testing::HasSubstr("\"" + folder_ + "/shared\""));
  config.run.resume = folder_ + "/toy";  // ddprun --resume
  folder = ValueOrThrow(OpenRunFolder(folder_ + "/toy", config));
  EXPECT_EQ(folder.origin, (fs::current_path() / "other/step-3").string());
  ThrowIfError(KeepRunFolder(folder, config, {}));
  EXPECT_EQ(Contents(folder_ + "/toy/config.resolved.json"), kept);
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
  const auto find = [&](const Config& config, const std::vector<std::string>& jobs) {
    return ValueOrThrow(FindRunFolder(config, jobs));
  };
  for (const char* where : {"/runs/{name}", "/fixed/", "/in/{name}/out", "/some-{name}-runs"}) {
    Config config;
    config.run.output_dir = folder_ + where;
    EXPECT_EQ(find(config, first), "");
    const std::string one = Make(config, first).path;
    const std::string two = Make(config, second).path;
    EXPECT_EQ(find(config, first), one);
    EXPECT_EQ(find(config, {"elastic x"}), one);
    EXPECT_EQ(find(config, second), two);
    EXPECT_EQ(find(config, other), "");
    EXPECT_EQ(find(config, {}), "");
  }
}

TEST_F(RunFolderTest, IsTheNewestOfSeveralJobsOfOneName) {
  const std::vector<std::string> elastic = {"elastic x"};
  for (const char* where : {"/runs/{name}", "/in/{name}/out"}) {
    for (const char* name : {"gpt", "gpt/small", "gpt-2"}) {
      Config config;
      config.run.name = name;
      config.run.output_dir = folder_ + where;
      std::string last;
      for (int i = 0; i < 11; ++i) last = Make(config, elastic).path;
      EXPECT_EQ(ValueOrThrow(FindRunFolder(config, elastic)), last);
    }
  }
}

TEST_F(RunFolderTest, IsFoundBesideManyWhoseNamesBeginWithItsOwn) {
  const std::vector<std::string> job = {"ddprun a"};
  Config config;
  config.run.name = "toy";
  config.run.output_dir = folder_ + "/{name}";
  const std::string own = Make(config, job).path;
  for (int i = 1; i <= 101; ++i) fs::create_directory(folder_ + "/toy-lr-" + std::to_string(i));
  EXPECT_EQ(ValueOrThrow(FindRunFolder(config, job)), own);
}

TEST_F(RunFolderTest, IsOneOfItsNameAlsoWhereNumbersAreMissing) {
  Config config;
  config.run.name = "toy";
  config.run.output_dir = folder_ + "/{name}";
  Make(config);
  const std::string second = Make(config).path;
  fs::remove_all(folder_ + "/toy");
  EXPECT_EQ(ValueOrThrow(RunFoldersOfName(config)), std::vector{second});
}

TEST_F(RunFolderTest, ThatCannotBeReadIsNotTakenForNone) {
  const std::vector<std::string> job = {"ddprun a"};
  Config config;
  config.run.name = "toy";
  config.run.output_dir = folder_ + "/{name}";
  const std::string path = Make(config, job).path;
  fs::remove(path + "/run.lock");
  fs::create_directory(path + "/run.lock");  // reading it fails, for root, too
  const Result<std::string> found = FindRunFolder(config, job);
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().page, "run-folder");
}

TEST_F(RunFolderTest, LosesNoNameOfAJobWhenItIsTakenUp) {
  const std::vector<std::string> first = {"ddprun a"};
  const std::vector<std::string> second = {"ddprun b"};
  Config config;
  config.run.output_dir = folder_ + "/toy";
  const std::string path = Make(config, first).path;
  const std::string before = Contents(path + "/run.lock");
  const auto take_up = [&](const std::vector<std::string>& jobs) {
    RunFolder folder = ValueOrThrow(OpenRunFolder(path, config));
    ThrowIfError(KeepRunFolder(folder, config, jobs));
  };
  take_up(first);
  EXPECT_EQ(Contents(path + "/run.lock"), before);
  std::ofstream(path + "/run.lock", std::ios::app) << "ddprun cut o";  // by a crash
  take_up(second);
  EXPECT_TRUE(Contents(path + "/run.lock").starts_with(before));
  for (const auto& jobs : {first, second}) {
    EXPECT_EQ(ValueOrThrow(FindRunFolder(config, jobs)), path);
  }
}

// Two projects with the same run.name and checkpoint.dir.
TEST_F(RunFolderTest, HasCheckpointsOfItsOwnInASharedFolder) {
  const auto config_of = [&](const std::string& project) {
    Config config;
    config.run.name = "toy";
    config.run.output_dir = folder_ + "/" + project + "/{name}";
    config.checkpoint.dir = folder_ + "/shared";
    return config;
  };
  const RunFolder first = Make(config_of("a"));
  EXPECT_EQ(first.checkpoints, folder_ + "/shared/toy");
  RunFolder second = Make(config_of("b"));
  EXPECT_EQ(second.path, folder_ + "/b/toy-2");
  EXPECT_EQ(second.checkpoints, folder_ + "/shared/toy-2");
  EXPECT_FALSE(fs::exists(folder_ + "/b/toy"));
  // Under its first name it would have the checkpoints of the other.
  second.lock.reset();
  fs::rename(second.path, folder_ + "/b/toy");
  const Result<RunFolder> refused = OpenRunFolder(folder_ + "/b/toy", config_of("b"), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().page, "checkpoints-of-another-run");
}

TEST_F(RunFolderTest, MayBeMovedAwayFromItsCheckpoints) {
  Config config;
  config.run.output_dir = folder_ + "/a/toy";
  config.checkpoint.dir = folder_ + "/shared";
  Make(config);
  fs::rename(folder_ + "/a", folder_ + "/b");
  for (int time = 0; time < 2; ++time) {
    RunFolder folder = ValueOrThrow(OpenRunFolder(folder_ + "/b/toy", config, {}));
    ThrowIfError(KeepRunFolder(folder, config, {}));
    EXPECT_EQ(ValueOrThrow(OwnerOf(folder.checkpoints))->run_folder, folder_ + "/b/toy");
  }
}

TEST_F(RunFolderTest, ThatDoesNotBeginLeavesNothing) {
  Config config;
  config.run.output_dir = folder_ + "/toy";
  config.checkpoint.dir = folder_ + "/shared";
  RunFolder folder = ValueOrThrow(MakeRunFolder(config, kStart));
  WithdrawRunFolder(folder);
  EXPECT_FALSE(fs::exists(folder_ + "/toy"));
  EXPECT_FALSE(fs::exists(folder_ + "/shared/toy"));
}

TEST_F(RunFolderTest, IsOfOneRunAtATime) {
  Config config;
  config.run.name = "first";
  config.run.output_dir = folder_ + "/{name}";
  RunFolder made = Make(config);
  const std::string before = Contents(folder_ + "/first/config.resolved.json");
  config.run.name = "second";
  config.run.max_steps = 7;
  const auto open = [&] {
    return OpenRunFolder(folder_ + "/first", config, std::chrono::milliseconds(1));
  };
  const Result<RunFolder> refused = open();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().page, "run-in-use");
  made.lock.reset();
  Result<RunFolder> taken = open();
  ASSERT_TRUE(taken.has_value()) << Render(taken.error());
  EXPECT_EQ(taken->name, "first");
  EXPECT_EQ(Contents(folder_ + "/first/config.resolved.json"), before);
  ASSERT_TRUE(KeepRunFolder(*taken, config, {}).ok());
  config.run.name = "first";
  EXPECT_EQ(Contents(folder_ + "/first/config.resolved.json"), WriteResolvedConfig(config));
}

}  // namespace
}  // namespace ddprun::trainer
