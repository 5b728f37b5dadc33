#include "launcher/process/process_table.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::string_view_literals;

constexpr pid_t kSelf = 50;
constexpr pid_t kOwnSession = 50;

ProcessEntry Process(pid_t pid, pid_t parent, pid_t session, bool marked = false) {
  ProcessEntry entry;
  entry.pid = pid;
  entry.parent = parent;
  entry.session = session;
  entry.marked = marked;
  return entry;
}

TEST(CarriesJobId, FindsTheIdAndThoseOfJobsWithin) {
  EXPECT_TRUE(CarriesJobId("A=1\0DDPRUN_JOB_ID=ab\0B=2\0"sv, "ab"));
  EXPECT_TRUE(CarriesJobId("DDPRUN_JOB_ID=ab/cd\0"sv, "ab"));
}

TEST(CarriesJobId, TakesNoOtherJobForIt) {
  EXPECT_FALSE(CarriesJobId("DDPRUN_JOB_ID=abc\0"sv, "ab"));
  EXPECT_FALSE(CarriesJobId("XDDPRUN_JOB_ID=ab\0"sv, "ab"));
  EXPECT_FALSE(CarriesJobId("DDPRUN_JOB_ID=ab\0"sv, "ab/cd"));
  EXPECT_FALSE(CarriesJobId(""sv, "ab"));
  EXPECT_FALSE(CarriesJobId("DDPRUN_JOB_ID=\0"sv, ""));
}

TEST(SelectJobProcesses, TakesMarkedOnesSessionsAndTheirDescendants) {
  const std::vector<ProcessEntry> processes = {
      Process(9, 8, 9),        // descendant of a descendant, listed before its parent
      Process(8, 7, 8),        // left the session and wiped its environment
      Process(7, 1, 7, true),  // marked
      Process(20, 1, 30),      // in a worker's session
      Process(kSelf, 1, kOwnSession),
      Process(2, 1, 2),  // somebody else's
  };
  EXPECT_THAT(SelectJobProcesses(processes, {{30, 0}}, kSelf, kOwnSession),
              ElementsAre(9, 8, 7, 20));
}

TEST(SelectJobProcesses, NeverTakesItselfOrTheEnded) {
  ProcessEntry zombie = Process(7, 1, 7, true);
  zombie.ended = true;
  const std::vector<ProcessEntry> processes = {zombie, Process(kSelf, 7, kOwnSession, true),
                                               Process(51, kSelf, kOwnSession, true)};
  EXPECT_THAT(SelectJobProcesses(processes, {}, kSelf, kOwnSession), IsEmpty());
}

TEST(ProcessTable, DropsASessionWhoseNumberIsAnothersByNow) {
  const std::vector<ProcessEntry> processes = {{.pid = 10, .session = 10, .start_time = 5},
                                               {.pid = 20, .session = 20, .start_time = 9}};
  std::map<pid_t, uint64_t> sessions = {{10, 5}, {20, 6}, {30, 7}};
  DropReused(processes, sessions);
  EXPECT_THAT(sessions, testing::ElementsAre(testing::Pair(10, 5), testing::Pair(30, 7)));
}

TEST(ProcessTable, KnowsThisProcess) {
  const auto self = ReadProcess(::getpid());
  ASSERT_TRUE(self.has_value());
  EXPECT_EQ(self->parent, ::getppid());
  EXPECT_EQ(self->session, ::getsid(0));
  EXPECT_FALSE(self->ended);
  EXPECT_GT(self->start_time, 0u);
}

TEST(ProcessTable, MarksByAPipeOnlyWhatIsNotOlderThanTheJob) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  struct stat info {};
  ASSERT_EQ(::fstat(write_end.get(), &info), 0);
  const auto self = ReadProcess(::getpid());
  ASSERT_TRUE(self.has_value());
  const JobMarks marks{.job_id = "of no process", .sessions = {}, .pipes = {info.st_ino}};
  EXPECT_TRUE(IsMarked(*self, marks, self->start_time));
  EXPECT_FALSE(IsMarked(*self, marks, self->start_time + 1));
  const JobMarks others{.job_id = "of no process", .sessions = {}, .pipes = {info.st_ino + 1}};
  EXPECT_FALSE(IsMarked(*self, others, 0));
}

}  // namespace
}  // namespace ddprun::launcher
