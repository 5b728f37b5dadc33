#include "launcher/report/out_of_memory.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "tests/launcher/temp_folder.h"

namespace ddprun::launcher {
namespace {

using testing::HasSubstr;

TEST(KernelLog, SaysWhomTheKernelKilledInACgroup) {
  const auto kill = ParseKernelKill(
      "3,1189,75315436,-;Memory cgroup out of memory: Killed process 812 (python3 (a)) "
      "total-vm:113368kB, anon-rss:65536kB, file-rss:4096kB, shmem-rss:0kB, UID:0 "
      "pgtables:276kB oom_score_adj:0\n SUBSYSTEM=x\n");
  ASSERT_TRUE(kill.has_value());
  EXPECT_EQ(kill->pid, 812);
  EXPECT_EQ(kill->name, "python3 (a)");
  EXPECT_TRUE(kill->cgroup_limit);
  EXPECT_EQ(kill->resident_bytes, 68 << 20);
}

TEST(KernelLog, SaysWhomTheKernelKilledOnTheWholeMachine) {
  const auto kill = ParseKernelKill(
      "3,7,9,-;Out of memory: Killed process 5 (a) total-vm:1kB, anon-rss:8kB, file-rss:0kB");
  ASSERT_TRUE(kill.has_value());
  EXPECT_FALSE(kill->cgroup_limit);
  EXPECT_EQ(kill->resident_bytes, 8 << 10);
}

TEST(KernelLog, HoldsOtherThingsToo) {
  for (const char* record :
       {"", ";", "6,1,2,-;eth0: link up", "Killed process 5 (a) total-vm:1kB",
        "3,1,2,-;Killed process x (a) total-vm:1kB", "3,1,2,-;Killed process 12",
        "6,1,2,-;oom_reaper: reaped process 812 (python3), now anon-rss:0kB"}) {
    EXPECT_FALSE(ParseKernelKill(record).has_value()) << record;
  }
}

TEST(CgroupMemory, KnowsItsGroupInBothVersions) {
  const auto second = ParseCgroupPath("0::/user.slice/a:b\n");
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(second->version_2);
  EXPECT_EQ(second->path, "/user.slice/a:b");
  const auto first = ParseCgroupPath("5:cpu,memory:/job\n1:name=systemd:/\n0::/\n");
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(first->version_2);
  EXPECT_EQ(first->path, "/job");
  EXPECT_FALSE(ParseCgroupPath("").has_value());
  EXPECT_FALSE(ParseCgroupPath("nonsense\n1:cpu:/a\n").has_value());
}

TEST(CgroupMemory, CountsKills) {
  EXPECT_EQ(ParseOomKills("low 0\nhigh 1\nmax 2\noom 3\noom_kill 4\noom_group_kill 5\n"), 4);
  EXPECT_EQ(ParseOomKills("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"), 2);
  EXPECT_FALSE(ParseOomKills("low 0\n").has_value());
  EXPECT_FALSE(ParseOomKills("oom_kill x\n").has_value());
}

class CgroupFiles : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_.path() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  TempFolder folder_;
};

TEST_F(CgroupFiles, OfVersion2GiveTheSmallestLimitOnTheWayUp) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/b/memory.events", "oom_kill 7\n");
  Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  Write("sys/fs/cgroup/a/memory.max", "1048576\n");
  const auto memory = ReadCgroupMemory(folder_.path());
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->oom_kills, 7);
  EXPECT_EQ(memory->limit_bytes, 1 << 20);
}

TEST_F(CgroupFiles, OfVersion1AreReadToo) {
  Write("proc/self/cgroup", "4:memory:/a\n0::/\n");
  Write("sys/fs/cgroup/memory/a/memory.oom_control", "under_oom 0\noom_kill 1\n");
  Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  const auto memory = ReadCgroupMemory(folder_.path());
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->oom_kills, 1);
  EXPECT_FALSE(memory->limit_bytes.has_value());
}

TEST_F(CgroupFiles, LimitMemoryWhereTheyAllowLessThanTheMachineHas) {
  EXPECT_FALSE(ReadMemoryLimit(folder_.path()).has_value());
  Write("proc/meminfo", "MemTotal:  2048 kB\nMemFree: 7 kB\nSwapTotal: 1024 kB\n");
  const auto machine = ReadMemoryLimit(folder_.path());
  ASSERT_TRUE(machine.has_value());
  EXPECT_EQ(machine->bytes, 3 << 20);
  EXPECT_FALSE(machine->of_cgroup);
  Write("proc/self/cgroup", "0::/a\n");
  Write("sys/fs/cgroup/a/memory.events", "oom_kill 0\n");
  Write("sys/fs/cgroup/a/memory.max", "1048576\n");
  const auto group = ReadMemoryLimit(folder_.path());
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->bytes, 1 << 20);
  EXPECT_TRUE(group->of_cgroup);
}

TEST_F(CgroupFiles, ThatAreAbsentGiveNothing) {
  EXPECT_FALSE(ReadCgroupMemory(folder_.path()).has_value());
  Write("proc/self/cgroup", "0::/\n");
  EXPECT_FALSE(ReadCgroupMemory(folder_.path()).has_value());
}

WorkerRecord Ended(ProcessExit exit) {
  WorkerRecord worker;
  worker.pid = 812;
  worker.exit = exit;
  return worker;
}

MemoryEvidence Named(pid_t pid) {
  return {.kills = {{.pid = pid, .cgroup_limit = true, .resident_bytes = 60 << 20}},
          .cgroup_kills = 1,
          .limit_bytes = 64 << 20};
}

TEST(OutOfMemory, IsCertainWhenTheKernelNamesTheWorker) {
  const auto found = ExplainOutOfMemory(Ended(Signaled{SIGKILL}), Named(812));
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->certain);
  EXPECT_EQ(found->what,
            "the kernel killed it because its cgroup (limit 64 MiB) ran out of memory; it held "
            "60 MiB");
}

TEST(OutOfMemory, IsLikelyWhenTheCgroupCountedAKill) {
  const auto found = ExplainOutOfMemory(Ended(Signaled{SIGKILL}), {.cgroup_kills = 1});
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->certain);
  EXPECT_THAT(found->what, HasSubstr("most likely"));
}

TEST(OutOfMemory, MayHaveHitAChildOfTheWorker) {
  const auto found = ExplainOutOfMemory(Ended(Exited{1}), Named(900));
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->certain);
  EXPECT_THAT(found->what, HasSubstr("perhaps a child"));
}

TEST(OutOfMemory, IsNotClaimedWithoutEvidence) {
  EXPECT_FALSE(ExplainOutOfMemory(Ended(Signaled{SIGKILL}), {}).has_value());
  WorkerRecord stopped = Ended(Signaled{SIGKILL});
  stopped.told_to_stop = true;
  EXPECT_FALSE(ExplainOutOfMemory(stopped, Named(900)).has_value());
}

TEST(MemoryWatch, SeesNothingWhereNothingHappens) {
  MemoryWatch watch;
  EXPECT_EQ(watch.ReadEvidence().cgroup_kills, 0);
}

}  // namespace
}  // namespace ddprun::launcher
