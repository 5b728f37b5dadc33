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

}  // namespace
}  // namespace ddprun::launcher
