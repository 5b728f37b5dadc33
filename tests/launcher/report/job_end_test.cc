#include "launcher/report/job_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ddprun::launcher {
namespace {

using rendezvous::RoundEnd;
using testing::HasSubstr;
using testing::Not;

JobEnd EndedBy(RoundEnd failure) {
  JobEnd end;
  end.program = "train.py";
  end.peer_failure = std::move(failure);
  end.slurm_step = "17.0";
  return end;
}

TEST(JobEnd, OfAStopOnAnotherNodeIsNoFailure) {
  const RoundEnd stop{
      .node_rank = 1, .message = "node 1 (b) was stopped by SIGTERM", .exit_code = 143};
  const std::string text = RenderJobEnd(EndedBy(stop), {});
  EXPECT_THAT(text, HasSubstr("-- ANOTHER NODE WAS STOPPED "));
  EXPECT_THAT(text, HasSubstr("node 1 (b) was stopped by SIGTERM.\n"));
  EXPECT_THAT(text, Not(HasSubstr("FAILED")));
  // A worker that SIGTERM killed is a failure, and comes with its record.
  RoundEnd killed = stop;
  killed.worker = std::make_shared<nlohmann::json>(nlohmann::json{{"rank", 3}, {"signal", 15}});
  EXPECT_THAT(RenderJobEnd(EndedBy(killed), {}), HasSubstr("-- ANOTHER NODE FAILED "));
  EXPECT_FALSE(IsStop({.kind = RoundEnd::Kind::kRegroup, .exit_code = 143}));
  EXPECT_FALSE(IsStop({.exit_code = 124}));
}

TEST(JobEnd, OfAnotherNodesFailureHasWhatThisNodesRanksRecorded) {
  JobEnd end = EndedBy({.node_rank = 1, .message = "it failed"});
  end.attempts.push_back({.nccl = {"What NCCL recorded:", "ranks wait"}});
  EXPECT_THAT(RenderJobEnd(end, {}),
              HasSubstr("The ranks of this node:\nWhat NCCL recorded:\nranks wait\n"));
}

TEST(JobEnd, OfANodeWhoseConnectionWasClosedExplainsScancelUnderSlurmOnly) {
  JobEnd end = EndedBy({.node_rank = 1, .message = "node 1 is gone: its connection was closed."});
  EXPECT_THAT(RenderJobEnd(end, {}), HasSubstr("`scancel 17.0` kills all its processes at once"));
  EXPECT_THAT(RenderJobEnd(end, {}), HasSubstr("`scancel 17` and"));
  end.slurm_step = "";
  EXPECT_THAT(RenderJobEnd(end, {}), Not(HasSubstr("scancel")));
  end = EndedBy({.node_rank = 1, .message = "node 1 is gone: nothing was heard from it for 15 s."});
  EXPECT_THAT(RenderJobEnd(end, {}), Not(HasSubstr("scancel")));
}

}  // namespace
}  // namespace ddprun::launcher
