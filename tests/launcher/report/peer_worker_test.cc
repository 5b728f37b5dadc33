#include "launcher/report/peer_worker.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ddprun::launcher {
namespace {

std::optional<PeerWorker> Back(const PeerWorker& worker) {
  return WorkerOf({.worker = ToJson(worker)});
}

TEST(PeerWorker, CarriesWhatIsKnown) {
  PeerWorker worker{.host = "node1", .time = "now"};
  worker.record.rank = 3;
  worker.record.local_rank = 1;
  worker.record.pid = 812;
  worker.record.exit = Signaled{9, true};
  worker.record.last_lines = {"a", "b"};
  worker.record.last_log = {"step 3"};
  worker.record.nccl = {"rank 1 has not come"};
  worker.record.error = WorkerError{"ValueError", "Traceback\n  x\n", 5};
  worker.record.error_file = "/e";
  worker.record.out_of_memory = OutOfMemory{true, "it ran out"};
  const auto read = Back(worker);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->host, "node1");
  EXPECT_EQ(read->time, "now");
  const WorkerRecord& record = read->record;
  EXPECT_EQ(record.rank, 3);
  EXPECT_EQ(record.local_rank, 1);
  EXPECT_EQ(record.pid, 812);
  EXPECT_EQ(record.exit, (ProcessExit{Signaled{9, true}}));
  EXPECT_EQ(record.last_lines, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(record.last_log, std::vector<std::string>{"step 3"});
  EXPECT_EQ(record.nccl, std::vector<std::string>{"rank 1 has not come"});
  EXPECT_EQ(record.error->message, "Traceback\n  x\n");
  EXPECT_EQ(record.out_of_memory->what, "it ran out");
}

TEST(PeerWorker, IsBoundedWhateverItWrote) {
  PeerWorker worker;
  worker.record.exit = Exited{1};
  worker.record.last_lines.assign(1000, std::string(5000, '\x01'));
  worker.record.last_log = worker.record.last_lines;
  worker.record.nccl = worker.record.last_lines;
  worker.record.error = WorkerError{std::string(100'000, '\x02'), "", 0};
  EXPECT_LE(ToJson(worker)->dump().size(), kMaxPeerWorkerBytes);
  EXPECT_EQ(Back(worker)->record.exit, (ProcessExit{Exited{1}}));
}

TEST(PeerWorker, ThatIsBrokenStillSaysTheRest) {
  const auto worker = WorkerOf({.worker = std::make_shared<const nlohmann::json>(
                                    nlohmann::json{{"rank", "a"}, {"code", "b"}, {"pid", 7}})});
  ASSERT_TRUE(worker.has_value());
  EXPECT_EQ(worker->record.rank, -1);
  EXPECT_EQ(worker->record.pid, 7);
  EXPECT_EQ(worker->record.exit, (ProcessExit{Exited{1}}));
  EXPECT_FALSE(WorkerOf({}).has_value());
}

TEST(PeerWorker, HasNothingThatATerminalObeys) {
  PeerWorker sent{.host = "\x1b]0;title\anode1"};
  sent.record.last_lines = {"\x1b[Aline"};
  const auto read = Back(sent);
  EXPECT_EQ(read->host, "node1");
  EXPECT_EQ(read->record.last_lines, std::vector<std::string>{"line"});
}

}  // namespace
}  // namespace ddprun::launcher
