#include <gmock/gmock.h>

#include <cerrno>

#include <ddprun/error.h>
#include "base/terminal.h"

namespace ddprun {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Error, RendersTitlePlaceEvidenceHintAndPage) {
  Error error;
  error.title = "UNKNOWN KEY";
  error.where = "train.json:14:5";
  error.what = "I found \"x\".";
  error.hint = "Did you mean \"y\"?";
  error.page = "unknown-key";
  const std::string text = Render(error);
  EXPECT_THAT(text, StartsWith("-- UNKNOWN KEY ---"));
  EXPECT_THAT(text, HasSubstr("--- train.json:14:5\nI found \"x\".\nDid you mean \"y\"?\n"));
  EXPECT_THAT(text, EndsWith("More: ddprun explain unknown-key\n"));
}

TEST(Error, SaysFirstWhatWasBeingDone) {
  Error error;
  error.what = "The port is taken.";
  EXPECT_EQ(std::move(error).While("joining round 3").what,
            "While joining round 3:\nThe port is taken.");
}

TEST(Error, GivesThePromisedExitStatus) {
  EXPECT_EQ(ExitStatus(Code::kFailed), 1);
  EXPECT_EQ(ExitStatus(Code::kDeadlineExceeded), 1);
  EXPECT_EQ(ExitStatus(Code::kRankLost), 1);
  EXPECT_EQ(ExitStatus(Code::kDamaged), 1);
  EXPECT_EQ(ExitStatus(Code::kUsage), 2);
  EXPECT_EQ(ExitStatus(Code::kStateDoesNotFit), 2);
  EXPECT_EQ(ExitStatus(Code::kNoCheckpoint), 2);
  EXPECT_EQ(ExitStatus(Code::kRendezvous), 3);
  EXPECT_EQ(ExitStatus(Code::kAddressInUse), 3);
  EXPECT_EQ(ExitStatus(Code::kCannotListen), 3);
  EXPECT_EQ(ExitStatus(Code::kNotExecutable), 126);
  EXPECT_EQ(ExitStatus(Code::kNotFound), 127);
}

TEST(Error, OfASystemCallHoldsErrnosText) {
  EXPECT_THAT(SystemError("opening data.txt", ENOENT).what,
              HasSubstr("opening data.txt: No such file or directory"));
  EXPECT_EQ(SystemError("opening data.txt", ENOENT).hint, "");
  EXPECT_THAT(SystemError("opening a pipe", EMFILE).hint, HasSubstr("ulimit -n"));
  EXPECT_THAT(SystemError("starting a.out (fork)", EAGAIN).hint, HasSubstr("ulimit -u"));
}

TEST(Error, ShowsNothingThatATerminalObeys) {
  const Error error{.title = "T", .where = "", .what = "a\x1b[2Jb\tc", .hint = "", .page = ""};
  EXPECT_THAT(Render(error), HasSubstr("ab\tc\n"));
}

TEST(Error, HasRedTitleBarsOnATerminal) {
  Error error{.title = "FIRST", .what = "one"};
  error.more.push_back({.title = "SECOND", .what = "two"});
  const std::string text = Render(error, {.color = true});
  EXPECT_TRUE(text.starts_with("\033[1;31m-- FIRST --")) << text;
  EXPECT_THAT(text, HasSubstr("--\033[0m\none\n\n\033[1;31m-- SECOND --"));
  EXPECT_TRUE(text.ends_with("--\033[0m\ntwo\n")) << text;
}

TEST(Error, HasTitleBarsAsWideAsTheTerminal) {
  Error error{.title = "FIRST", .where = "x.json", .what = "one"};
  error.more.push_back({.title = "SECOND", .what = "two"});
  EXPECT_EQ(Render(error, {.columns = 22}),
            "-- FIRST ------ x.json\none\n\n-- SECOND ------------\ntwo\n");
}

}  // namespace
}  // namespace ddprun
