#include "launcher/report/peer_message.h"

#include <gtest/gtest.h>

namespace ddprun::launcher {
namespace {

TEST(PeerMessage, IsReadAsItWasWritten) {
  const PeerMessage message = DecodePeerMessage(EncodePeerMessage({42, "rank 1 \"failed\"\n"}));
  EXPECT_EQ(message.exit_code, 42);
  EXPECT_EQ(message.text, "rank 1 \"failed\"\n");
}

TEST(PeerMessage, CarriesWhatIsKnownOfTheWorker) {
  PeerWorker worker{.host = "node1", .time = "now"};
  worker.record.rank = 3;
  worker.record.local_rank = 1;
  worker.record.pid = 812;
  worker.record.exit = Signaled{9, true};
  worker.record.last_lines = {"a", "b"};
  worker.record.error = WorkerError{"ValueError", "Traceback\n  x\n", 5};
  worker.record.error_file = "/e";
  worker.record.out_of_memory = OutOfMemory{true, "it ran out"};
  const PeerMessage read = DecodePeerMessage(EncodePeerMessage({1, "t", worker}));
  ASSERT_TRUE(read.worker.has_value());
  EXPECT_EQ(read.worker->host, "node1");
  EXPECT_EQ(read.worker->time, "now");
  const WorkerRecord& record = read.worker->record;
  EXPECT_EQ(record.rank, 3);
  EXPECT_EQ(record.local_rank, 1);
  EXPECT_EQ(record.pid, 812);
  EXPECT_EQ(record.exit, (ProcessExit{Signaled{9, true}}));
  EXPECT_EQ(record.last_lines, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(record.error->message, "Traceback\n  x\n");
  EXPECT_EQ(record.out_of_memory->what, "it ran out");
}

TEST(PeerMessage, IsBoundedWhateverTheWorkerWrote) {
  PeerWorker worker;
  worker.record.exit = Exited{1};
  worker.record.last_lines.assign(1000, std::string(5000, '\x01'));
  worker.record.error = WorkerError{std::string(100'000, '\x02'), "", 0};
  const std::string text = EncodePeerMessage({1, "t", worker});
  EXPECT_LE(text.size(), kMaxPeerMessageBytes);
  EXPECT_EQ(DecodePeerMessage(text).worker->record.exit, (ProcessExit{Exited{1}}));
}

TEST(PeerMessage, WithABrokenWorkerStillSaysTheRest) {
  const PeerMessage message = DecodePeerMessage(
      R"({"exit_code": 3, "text": "x", "worker": {"rank": "a", "code": [], "last_lines": [1]}})");
  EXPECT_EQ(message.exit_code, 3);
  ASSERT_TRUE(message.worker.has_value());
  EXPECT_EQ(message.worker->record.rank, -1);
  EXPECT_EQ(message.worker->record.exit, (ProcessExit{Exited{1}}));
  EXPECT_FALSE(
      DecodePeerMessage(R"({"exit_code": 3, "text": "x", "worker": 7})").worker.has_value());
}

TEST(PeerMessage, TakesForeignTextAsItIs) {
  for (const char* text : {"node 1 is gone", "", "{}", "[1]", "{\"exit_code\": \"7\"}"}) {
    EXPECT_EQ(DecodePeerMessage(text).exit_code, 1) << text;
    EXPECT_EQ(DecodePeerMessage(text).text, text);
  }
}

TEST(PeerMessage, HasNothingThatATerminalObeys) {
  PeerMessage sent{7, "evil \x1b[2Jtext"};
  sent.worker = PeerWorker{.host = "\x1b]0;title\anode1"};
  sent.worker->record.last_lines = {"\x1b[Aline"};
  const PeerMessage read = DecodePeerMessage(EncodePeerMessage(sent));
  EXPECT_EQ(read.text, "evil text");
  EXPECT_EQ(read.worker->host, "node1");
  EXPECT_EQ(read.worker->record.last_lines, std::vector<std::string>{"line"});
  EXPECT_EQ(DecodePeerMessage("\x1b[Anode 1 is gone").text, "node 1 is gone");
}

TEST(PeerMessage, NeverMeansSuccess) {
  EXPECT_EQ(DecodePeerMessage(R"({"exit_code": 0, "text": "x"})").exit_code, 1);
  EXPECT_EQ(DecodePeerMessage(R"({"exit_code": 256, "text": "x"})").exit_code, 1);
}

}  // namespace
}  // namespace ddprun::launcher
