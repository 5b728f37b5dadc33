#include "launcher/agent/last_words.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/launcher/temp_folder.h"

namespace ddprun::launcher {
namespace {

TEST(ErrorFileForParent, GetsTheExitCodeOfTheWorker) {
  const std::string text = R"({"message":{"message":"ValueError: x"}})";
  EXPECT_EQ(ErrorTextForParent(text, Exited{7}),
            R"({"message":{"errorCode":7,"message":"ValueError: x"}})");
  EXPECT_EQ(ErrorTextForParent(text, Signaled{SIGKILL}),
            R"({"message":{"errorCode":-9,"message":"ValueError: x"}})");
}

TEST(ErrorFileForParent, StaysAsItIsWhenThereIsNoPlaceForTheCode) {
  for (const std::string text : {R"({"message": "text", "timestamp": 1})", "{}", "{half", ""}) {
    EXPECT_EQ(ErrorTextForParent(text, Exited{7}), text);
  }
}

TEST(ErrorFileForParent, ReplacesTheParentsFileButOnlyWhenThereIsOne) {
  const TempFolder temp;
  const std::string from = temp.path() + "/from";
  const std::string to = temp.path() + "/to";
  EXPECT_TRUE(CopyErrorFile(from, Exited{1}, to).ok());
  EXPECT_FALSE(std::filesystem::exists(to));
  std::ofstream(to) << "old, and longer than what comes";
  std::ofstream(from) << "{}";
  EXPECT_TRUE(CopyErrorFile(from, Exited{1}, to).ok());
  std::stringstream copied;
  copied << std::ifstream(to).rdbuf();
  EXPECT_EQ(copied.str(), "{}");
}

TEST(ErrorFileForParent, SaysWhichFileCannotBeWritten) {
  const TempFolder temp;
  std::ofstream(temp.path() + "/from") << "{}";
  const Status status = CopyErrorFile(temp.path() + "/from", Exited{1}, "/nowhere/to");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().what.find("/nowhere/to"), std::string::npos);
}

TEST(OutcomeOfJob, TellsALostNodeFromItsFailedWorker) {
  JobEnd end;
  end.peer_failure = rendezvous::RoundEnd{.node_rank = 1, .message = "node 1 is gone"};
  end.node_rank = 2;
  EXPECT_TRUE(OutcomeOf(end).lost_node);
  EXPECT_FALSE(OutcomeOf(end).may_requeue);  // node rank 0 does it
  end.peer_failure->node_rank = 0;
  EXPECT_TRUE(OutcomeOf(end).may_requeue);
  end.peer_failure->exit_code = 75;
  EXPECT_FALSE(OutcomeOf(end).lost_node);
}

TEST(OutcomeOfJob, HasAWorkersCodeOnlyIfASignalStoppedTheJob) {
  JobEnd end;
  end.unstyled_code = 1;
  end.worker_code = 75;
  EXPECT_EQ(OutcomeOf(end).worker_code, std::nullopt);  // the failure of another node stopped it
  end.stop_signal = SIGTERM;
  EXPECT_EQ(OutcomeOf(end).worker_code, 75);
  EXPECT_FALSE(OutcomeOf(end).interrupted);
  end.stop_signal = SIGINT;
  EXPECT_TRUE(OutcomeOf(end).interrupted);
}

}  // namespace
}  // namespace ddprun::launcher
