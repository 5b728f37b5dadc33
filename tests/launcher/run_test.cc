// A toy subcommand: one row, and ddprun runs it, shows it and completes it.
#include "launcher/run.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace ddprun::launcher {
namespace {

using testing::HasSubstr;
using testing::Not;

Result<int> RunToy(const std::vector<std::string>& args, const Environment& env) {
  if (args.empty()) return Error{.code = Code::kUsage, .title = "NO TOY", .what = "Name a toy."};
  std::fputs((args.front() + " of " + env.GetOr("TOY_OWNER", "nobody")).c_str(), stdout);
  return 7;
}

class ToySubcommand : public testing::Test {
 protected:
  ToySubcommand() { rows_.push_back({"toy", "NAME", "plays with a toy", RunToy}); }

  // Runs ddprun and returns what it writes on standard output.
  std::string Run(const std::vector<std::string>& args, int code) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(launcher::Run(args, rows_), code);
    return testing::internal::GetCapturedStdout();
  }

  std::vector<Subcommand> rows_{AllSubcommands().begin(), AllSubcommands().end()};
};

TEST_F(ToySubcommand, GetsItsArgumentsAndTheEnvironmentAndGivesTheExitCode) {
  ::setenv("TOY_OWNER", "me", 1);
  EXPECT_EQ(Run({"toy", "ball"}, 7), "ball of me");
  ::unsetenv("TOY_OWNER");
  EXPECT_EQ(Run({"help", "toy"}, 7), "--help of nobody");
}

TEST_F(ToySubcommand, HasItsErrorReported) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(Run({"toy"}, ExitStatus(Code::kUsage)), "");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("Name a toy."));
}

TEST_F(ToySubcommand, StandsInHelpManPageAndCompletion) {
  EXPECT_THAT(Run({"--help"}, 0), HasSubstr("plays with a toy"));
  EXPECT_THAT(Run({"--print_man_page"}, 0), HasSubstr("ddprun toy"));
  EXPECT_THAT(Run({"--print_completion=bash"}, 0), HasSubstr(" toy"));
  rows_.pop_back();
  EXPECT_THAT(Run({"--help"}, 0), Not(HasSubstr("toy")));
}

}  // namespace
}  // namespace ddprun::launcher
