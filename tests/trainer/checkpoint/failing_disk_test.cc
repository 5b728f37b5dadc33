// Every call that changes a file fails in turn, in every way: training goes on, and one checkpoint
// always loads.
#include "tests/trainer/checkpoint/failing_disk.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <random>
#include <thread>

#include "tests/trainer/checkpoint/checkpoint_fixture.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Saves step 2 where step 1 is, and perhaps a step 2 of before, on such a disk; returns the calls.
int SaveOn(const Fault& fault, bool again) {
  const CheckpointFolder folder;
  EXPECT_FALSE(SaveSmall(folder.path(), 1).error);
  if (again) {
    EXPECT_FALSE(SaveSmall(folder.path(), 2).error);
  }
  FailingDisk disk(fault);
  SaveOutcome outcome;
  {
    const WatchFiles watch(folder.path(), disk);
    outcome = SaveSmall(folder.path(), 2, "b", {.newest = 1});
  }
  const std::string what =
      "errno " + std::to_string(fault.error_number) + " at call " + std::to_string(fault.from);
  const NewestCheckpoint newest = ValueOrThrow(OpenNewest(folder.path()));
  EXPECT_TRUE(newest.checkpoint) << what;
  if (!newest.checkpoint) return disk.calls();
  EXPECT_TRUE(HasSmallState(*newest.checkpoint)) << what;
  EXPECT_TRUE(outcome.error || newest.checkpoint->step() == 2) << what;
  EXPECT_THAT(newest.skipped, testing::IsEmpty()) << what;
  // The next one goes well and tidies up.
  EXPECT_FALSE(SaveSmall(folder.path(), 3, "c", {.newest = 1}).error) << what;
  EXPECT_THAT(folder.Names(), ElementsAre("latest", "step-3")) << what;
  return disk.calls();
}

TEST(FailingDisk, LosesNothingThatWasSaved) {
  for (const bool again : {false, true}) {
    FailEachCall(20, [&](const Fault& fault) { return SaveOn(fault, again); });
  }
}

TEST(FailingDisk, IsSaidByTheOutcome) {
  const CheckpointFolder folder;
  ASSERT_FALSE(SaveSmall(folder.path(), 1).error);
  FailingDisk disk({.error_number = ENOSPC, .count = 1'000'000});
  const WatchFiles watch(folder.path(), disk);
  const SaveOutcome outcome = SaveSmall(folder.path(), 2);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->title, "CANNOT WRITE A FILE");
  EXPECT_THAT(outcome.error->what, HasSubstr("No space left on device"));
  EXPECT_EQ(outcome.path, "");
}

TEST(FailingDisk, MayLoseTheFolderMeanwhile) {
  class VanishingFolder final : public FileWatcher {
   public:
    explicit VanishingFolder(std::string path) : path_(std::move(path)) {}
    int Before(FileCall& call) override {
      if (call.kind == FileCall::Kind::kSync) fs::remove_all(path_);
      return 0;
    }
    void After(const FileCall&) override {}

   private:
    const std::string path_;
  };
  const CheckpointFolder folder;
  ASSERT_FALSE(SaveSmall(folder.path(), 1).error);
  {
    VanishingFolder disk(folder.path() + "/step-2.tmp-a-1");
    const WatchFiles watch(folder.path(), disk);
    const SaveOutcome outcome = SaveSmall(folder.path(), 2);
    ASSERT_TRUE(outcome.error);
    EXPECT_THAT(outcome.error->what, HasSubstr("No such file or directory"));
  }
  EXPECT_TRUE(ValueOrThrow(OpenNewest(folder.path())).checkpoint);
  // The save makes the folder of all checkpoints again.
  fs::remove_all(folder.path());
  EXPECT_FALSE(SaveSmall(folder.path(), 3).error);
  EXPECT_TRUE(ValueOrThrow(OpenNewest(folder.path())).checkpoint);
}

// A process that is killed, or whose disk fails, between making the link and giving it its name
// leaves a link to the checkpoint under the name of an unfinished one.
TEST(FailingDisk, LeavesALinkByWhichNoCheckpointIsRemoved) {
  for (const int64_t step : {1, 2}) {  // the next start, the next save
    const CheckpointFolder folder;
    ASSERT_FALSE(SaveSmall(folder.path(), 1).error);
    fs::create_symlink("step-1", folder.path() + "/step-1.tmp-latest");
    if (step == 1) {
      ASSERT_TRUE(PrepareCheckpointFolder(folder.path(), step).ok());
    } else {
      ASSERT_FALSE(SaveSmall(folder.path(), step).error);
      EXPECT_EQ(ValueOrThrow(ListCheckpoints(folder.path())).size(), 2U);
    }
    EXPECT_FALSE(fs::is_symlink(folder.path() + "/step-1.tmp-latest"));
    const Result<Checkpoint> first = Checkpoint::Open(folder.path() + "/step-1");
    ASSERT_TRUE(first) << first.error().what;
    EXPECT_TRUE(HasSmallState(*first));
  }
}

// A record that cannot be read is not waited for.
TEST(FailingDisk, MayNotReadARecord) {
  class UnreadableRecord final : public FileWatcher {
    int Before(FileCall& call) override {
      const bool opens = call.kind == FileCall::Kind::kOpen && (call.flags & O_CREAT) == 0;
      return opens && call.path.ends_with(".json") ? EIO : 0;
    }
    void After(const FileCall&) override {}
  } disk;
  const CheckpointFolder folder;
  const WatchFiles watch(folder.path(), disk);
  const SaveOutcome outcome = SaveCheckpoint({.folder = folder.path(), .deadline = 1000},
                                             SmallState(1).Dict(), {.step = 1, .attempt = "x"});
  ASSERT_TRUE(outcome.error);
  EXPECT_THAT(outcome.error->what, HasSubstr("Input/output error"));
}

// A rank whose disk fails does not let the others wait for their deadline.
TEST(FailingDisk, IsHeardOfByOtherRanks) {
  for (const std::string failing : {"shard-00000", "shard-00001", "index.json"}) {
    const CheckpointFolder folder;
    class FailingFile final : public FileWatcher {
     public:
      explicit FailingFile(std::string name) : name_(std::move(name)) {}
      int Before(FileCall& call) override {
        return call.path.find(name_) != std::string::npos ? EIO : 0;
      }
      void After(const FileCall&) override {}

     private:
      const std::string name_;
    } disk(failing);
    const WatchFiles watch(folder.path(), disk);
    std::vector<SaveOutcome> outcomes(3);
    std::vector<std::thread> ranks;
    for (int64_t rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        outcomes[rank] = SaveCheckpoint(
            {.folder = folder.path(), .part = {.rank = rank, .size = 3}, .deadline = 1000},
            SmallState(1).Dict(), {.step = 1, .attempt = "x"});
      });
    }
    for (std::thread& rank : ranks) rank.join();
    for (const SaveOutcome& outcome : outcomes) {
      ASSERT_TRUE(outcome.error) << failing;
      EXPECT_THAT(outcome.error->what, HasSubstr("Input/output error")) << failing;
    }
    EXPECT_FALSE(ValueOrThrow(OpenNewest(folder.path())).checkpoint);
    ASSERT_TRUE(PrepareCheckpointFolder(folder.path(), 0).ok());
    EXPECT_THAT(folder.Names(), testing::IsEmpty());
  }
}

// Saves step after step until it is killed.
[[noreturn]] void SaveForEver(const std::string& folder, int64_t step, int ready) {
  BackgroundSaver saver({.folder = folder, .retention = {.newest = 2}});
  while (true) {
    ++step;
    saver.Begin(SmallState(step).Dict(), {.step = step, .attempt = std::to_string(::getpid())});
    saver.WaitForCopy();
    if (saver.Poll() && ready >= 0) {
      (void)::write(ready, "x", 1);
      ready = -1;
    }
  }
}

TEST(KilledSaver, LeavesACheckpointThatLoads) {
  const CheckpointFolder folder;
  std::minstd_rand random(1);
  int64_t last = 0;
  for (int round = 0; round < 40; ++round) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) SaveForEver(folder.path(), last, ready[1]);
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);  // at least one is committed
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(ready[0]);
    ::close(ready[1]);
    const NewestCheckpoint newest = ValueOrThrow(OpenNewest(folder.path()));
    ASSERT_TRUE(newest.checkpoint);
    EXPECT_TRUE(HasSmallState(*newest.checkpoint));
    EXPECT_THAT(newest.skipped, testing::IsEmpty());
    EXPECT_GT(newest.checkpoint->step(), last);
    last = newest.checkpoint->step();
    ASSERT_TRUE(PrepareCheckpointFolder(folder.path(), last).ok());
    for (const std::string& name : folder.Names()) {
      EXPECT_TRUE(name == "latest" || name.find('.') == std::string::npos) << name;
    }
  }
}

}  // namespace
}  // namespace ddprun::trainer
