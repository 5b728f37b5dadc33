#include "base/node_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> NamesOf(std::string_view text) {
  const auto names = ParseNodeList(text, "LIST");
  EXPECT_TRUE(names.has_value()) << text << ": " << names.error().what;
  return names.has_value() ? *names : std::vector<std::string>();
}

TEST(NodeList, ReadsTheFormsThatSlurmWrites) {
  EXPECT_THAT(NamesOf("node1"), ElementsAre("node1"));
  EXPECT_THAT(NamesOf("a1-x,a2-x"), ElementsAre("a1-x", "a2-x"));
  EXPECT_THAT(NamesOf("node[1-3,7],gpu-a[01-02]"),
              ElementsAre("node1", "node2", "node3", "node7", "gpu-a01", "gpu-a02"));
  EXPECT_THAT(NamesOf("n[08-11]"), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(NamesOf("n[99-101]"), ElementsAre("n99", "n100", "n101"));
  EXPECT_THAT(NamesOf("n[8,09-10]"), ElementsAre("n8", "n09", "n10"));
  EXPECT_THAT(NamesOf("r[1-2]n[1-2]"), ElementsAre("r1n1", "r1n2", "r2n1", "r2n2"));
  EXPECT_THAT(NamesOf("n[1-2].cluster"), ElementsAre("n1.cluster", "n2.cluster"));
}

TEST(NodeList, KeepsOrderAndRepeatsAndSkipsEmptyItems) {
  EXPECT_THAT(NamesOf("b,a,b"), ElementsAre("b", "a", "b"));
  EXPECT_THAT(NamesOf("a,,b,"), ElementsAre("a", "b"));
  EXPECT_THAT(NamesOf(" a, b "), ElementsAre("a", "b"));
}

TEST(NodeList, RefusesOtherTextsWithACaretAtThePlace) {
  for (const char* text : {"", ",", "n[", "n[1-", "n[1-2", "n[]", "n[a-b]", "n[3-1]", "n[1-2,]",
                           "(null)", "a b", "n]", "n[1]]", "n[1[2]]", "n[-1]", "a\nb",
                           "n[1-9999999]", "n[1-999][1-999]", "n[1-9999999999999999999]"}) {
    const auto names = ParseNodeList(text, "LIST");
    ASSERT_FALSE(names.has_value()) << text;
    EXPECT_EQ(names.error().where, "LIST");
    EXPECT_THAT(names.error().what, HasSubstr("^ expected"));
  }
  const std::string longest(255, 'n');
  EXPECT_THAT(NamesOf(longest), ElementsAre(longest));
  EXPECT_FALSE(ParseNodeList(longest + "n", "LIST").has_value());
  EXPECT_FALSE(ParseNodeList(longest + "[1]", "LIST").has_value());
  EXPECT_EQ(ParseNodeList("n[1-x]", "LIST").error().what, "n[1-x]\n    ^ expected a number");
}

}  // namespace
}  // namespace ddprun
