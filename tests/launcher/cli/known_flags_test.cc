#include <gmock/gmock.h>

#include <regex>
#include <set>
#include <sstream>

#include "launcher/cli/command_line.h"
#include "launcher/cli/flag.h"

namespace ddprun::launcher {
namespace {

std::vector<std::string> WordsOf(const KnownFlags& row) {
  std::vector<std::string> words;
  std::istringstream stream{std::string(row.words)};
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

TEST(KnownFlags, AreAnsweredInTheMessage) {
  for (const KnownFlags& row : AllKnownFlags()) {
    for (const std::string& word : WordsOf(row)) {
      const std::string flag = (word.size() == 1 ? "-" : "--") + word;
      const auto parsed = ParseOptions({flag, "2", "train.py"}, Environment());
      ASSERT_FALSE(parsed) << flag << " is a flag of ddprun";
      EXPECT_EQ(parsed.error().title, "UNKNOWN FLAG") << flag;
      EXPECT_EQ(parsed.error().where, flag);
      EXPECT_EQ(parsed.error().hint, row.answer) << flag;
    }
  }
}

TEST(KnownFlags, StandInOneRowEach) {
  std::set<std::string> seen;
  for (const KnownFlags& row : AllKnownFlags()) {
    for (const std::string& word : WordsOf(row)) EXPECT_TRUE(seen.insert(word).second) << word;
  }
}

// The flags that a row names must exist, or the row sends people from one error to the next.
TEST(KnownFlags, NameFlagsThatDdprunHas) {
  std::set<std::string> ours = {"ntasks-per-node"};  // of srun, in front of ddprun
  for (const Flag& flag : AllFlags()) ours.insert(std::string(flag.name));
  const std::regex named("--([a-z][a-z0-9_-]*)");
  for (const KnownFlags& row : AllKnownFlags()) {
    const std::string answer(row.answer);
    std::istringstream lines(answer);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 92U) << line;
    for (std::sregex_iterator i(answer.begin(), answer.end(), named), end; i != end; ++i) {
      EXPECT_TRUE(ours.contains((*i)[1])) << answer;
    }
  }
}

TEST(KnownFlags, AreFoundBehindOneDashAndWithDashes) {
  for (const char* flag : {"-machinefile", "--num-machines", "-npernode=2", "--num_gpus=4"}) {
    const auto parsed = ParseOptions({flag, "train.py"}, Environment());
    ASSERT_FALSE(parsed) << flag;
    EXPECT_THAT(parsed.error().hint, testing::HasSubstr("Here it is --")) << flag;
  }
}

}  // namespace
}  // namespace ddprun::launcher
