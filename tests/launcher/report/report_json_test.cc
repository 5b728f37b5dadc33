#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "launcher/report/job_end.h"
#include "launcher/report/peer_worker.h"

namespace ddprun::launcher {
namespace {

using nlohmann::json;
using rendezvous::RoundEnd;
using std::chrono::system_clock;

JobEnd FailedJob() {
  JobEnd end;
  end.program = "train.py";
  end.host = "node1";
  end.job_id = "0123";
  end.run_id = "none";
  end.exit_code = 7;
  AttemptEnd attempt;
  attempt.membership.restart_count = 1;
  attempt.membership.world_size = 2;
  attempt.workers.resize(2);
  attempt.workers[0].exit = Signaled{SIGTERM, false};
  attempt.workers[0].told_to_stop = true;
  attempt.workers[1].rank = 1;
  attempt.workers[1].pid = 812;
  attempt.workers[1].exit = Exited{7};
  attempt.workers[1].last_lines = {"boom", "\xff"};
  attempt.workers[1].last_log = {"step 7"};
  attempt.workers[1].started_at = system_clock::time_point(std::chrono::milliseconds(1500));
  attempt.first_failure = 1;
  attempt.nccl = {"rank 1 has not come"};
  end.attempts = {attempt};
  end.worker_failed = true;
  end.log = {"joined"};
  end.resume_command = "ddprun --resume runs/toy";
  return end;
}

TEST(ReportJson, NamesTheFirstCause) {
  const json report = json::parse(RenderReportJson(FailedJob()));
  EXPECT_EQ(report["result"], "failed");
  EXPECT_EQ(report["exit_code"], 7);
  EXPECT_EQ(report["first_cause"]["worker"]["rank"], 1);
  EXPECT_EQ(report["first_cause"]["worker"]["exit"]["code"], 7);
  const json& workers = report["attempts"][0]["workers"];
  EXPECT_EQ(workers[0]["first_failure"], false);
  EXPECT_EQ(workers[0]["exit"]["signal_name"], "SIGTERM");
  EXPECT_EQ(workers[0]["exit"]["code"], nullptr);
  EXPECT_EQ(workers[1]["first_failure"], true);
  EXPECT_EQ(workers[1]["last_lines"][1], "\xEF\xBF\xBD");
  EXPECT_EQ(workers[1]["last_log"], json::array({"step 7"}));
  EXPECT_EQ(report["first_cause"]["worker"]["last_log"], json::array({"step 7"}));
  EXPECT_EQ(report["launcher_log"], json::array({"joined"}));
  EXPECT_EQ(report["to_go_on"], "ddprun --resume runs/toy");
  EXPECT_EQ(workers[1]["started_at"], "1970-01-01T00:00:01.500Z");
  EXPECT_EQ(workers[1]["ended_at"], nullptr);
  EXPECT_EQ(report["attempts"][0]["restart_count"], 1);
  EXPECT_EQ(report["attempts"][0]["nccl"], json::array({"rank 1 has not come"}));
}

TEST(ReportJson, OfAJobThatWentWellHasNoCause) {
  JobEnd end = FailedJob();
  end.exit_code = 0;
  const json report = json::parse(RenderReportJson(end));
  EXPECT_EQ(report["result"], "succeeded");
  EXPECT_EQ(report["first_cause"], nullptr);
}

TEST(ReportJson, OfAnotherNodesFailureNamesItsWorker) {
  JobEnd end = FailedJob();
  PeerWorker worker{.host = "node2"};
  worker.record.rank = 5;
  worker.record.exit = Signaled{SIGKILL, false};
  end.peer_failure = RoundEnd{
      .node_rank = 2, .message = "rank 5 on node2", .exit_code = 137, .worker = ToJson(worker)};
  const json report = json::parse(RenderReportJson(end));
  EXPECT_EQ(report["first_cause"]["node_rank"], 2);
  EXPECT_EQ(report["first_cause"]["worker"]["host"], "node2");
  EXPECT_EQ(report["first_cause"]["worker"]["exit"]["signal"], SIGKILL);
}

TEST(ReportJson, SaysWhenTheLauncherItselfFailedOrWasStopped) {
  JobEnd end;
  end.exit_code = 3;
  end.error =
      Error{.title = "NODES MISSING", .where = "", .what = "1 of 2", .hint = "", .page = ""};
  json report = json::parse(RenderReportJson(end));
  EXPECT_EQ(report["first_cause"]["text"], "1 of 2");
  EXPECT_EQ(report["launcher_error"]["title"], "NODES MISSING");
  EXPECT_EQ(report["attempts"], json::array());
  end.error.reset();
  end.exit_code = 143;
  end.stop_signal = SIGTERM;
  report = json::parse(RenderReportJson(end));
  EXPECT_EQ(report["result"], "stopped");
  EXPECT_EQ(report["stop_signal"], "SIGTERM");
  EXPECT_EQ(report["first_cause"]["text"], "stopped by SIGTERM");
}

TEST(ReportJson, KeepsTheAttemptsBeforeTheLast) {
  JobEnd end = FailedJob();
  end.attempts.push_back(end.attempts[0]);
  end.attempts[0].ended_elsewhere = RoundEnd{RoundEnd::Kind::kRegroup, -1, "node 2 came"};
  const json report = json::parse(RenderReportJson(end));
  ASSERT_EQ(report["attempts"].size(), 2u);
  EXPECT_EQ(report["attempts"][0]["ended_elsewhere"]["kind"], "regroup");
  EXPECT_EQ(report["attempts"][0]["ended_elsewhere"]["node_rank"], nullptr);
  EXPECT_EQ(report["attempts"][1]["ended_elsewhere"], nullptr);
}

}  // namespace
}  // namespace ddprun::launcher
