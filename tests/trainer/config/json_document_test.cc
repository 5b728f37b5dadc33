// Where keys and values stand, and what is said about broken JSON.
#include "trainer/config/json_document.h"

#include <gtest/gtest.h>

namespace ddprun::trainer {
namespace {

std::string TextOf(const Source& source, const Span& span) {
  return source.text.substr(span.begin, span.end - span.begin);
}

// "line:column" and the message, without title bar.
std::string Broken(const std::string& text) {
  const Source source{Source::Kind::kFile, "f", text};
  const Result<JsonValue> value = ParseJson(source);
  if (value.has_value()) return "";
  const Error& error = value.error();
  return "\n" + error.where + "\n" + error.what + (error.hint.empty() ? "" : "\n" + error.hint) +
         "\n";
}

TEST(JsonDocument, EveryKeyAndValueKnowsItsPlace) {
  const Source source{Source::Kind::kFile, "f",
                      "// : { \"no\"\n{ /* ] */ \"a\\u0041\" /**/ : [ 1.50, \"b\" , true,\n"
                      "null, {\"c\" : -2e3 , } , ] // }\n, \"d\": {} }"};
  const Result<JsonValue> root = ParseJson(source);
  ASSERT_TRUE(root.has_value()) << Render(root.error());
  ASSERT_EQ(root->members.size(), 2U);
  EXPECT_EQ(TextOf(source, root->span), source.text.substr(source.text.find("{ /*")));
  const JsonMember& list = root->members[0];
  EXPECT_EQ(list.key, "aA");
  EXPECT_EQ(TextOf(source, list.key_span), "\"a\\u0041\"");
  EXPECT_EQ(TextOf(source, list.value.span), "[ 1.50, \"b\" , true,\nnull, {\"c\" : -2e3 , } , ]");
  const std::vector<JsonValue>& elements = list.value.elements;
  ASSERT_EQ(elements.size(), 5U);
  EXPECT_EQ(elements[0].text, "1.50");
  EXPECT_EQ(TextOf(source, elements[1].span), "\"b\"");
  EXPECT_EQ(TextOf(source, elements[2].span), "true");
  EXPECT_EQ(TextOf(source, elements[3].span), "null");
  EXPECT_EQ(TextOf(source, elements[4].span), "{\"c\" : -2e3 , }");
  EXPECT_EQ(elements[4].members[0].value.text, "-2e3");
  EXPECT_EQ(TextOf(source, root->members[1].value.span), "{}");
}

TEST(JsonDocument, AMissingCommaIsShownWhereItIsMissed) {
  EXPECT_EQ(Broken("{\n  \"a\": 1\n  \"b\": 2\n}"), R"(
f:3:3
A comma or a closing } was expected here:
3|   "b": 2
     ^
A comma may be missing at the end of the value before.
)");
}

TEST(JsonDocument, AnUnclosedBracketIsShownAtTheEnd) {
  EXPECT_EQ(Broken("{\"a\": [1, 2\n\n"), R"(
f:1:12
The text ends here, in the middle of a value:
1| {"a": [1, 2
              ^
Close every { [ and ".
)");
}

TEST(JsonDocument, AnUnquotedWordIsNoValue) {
  EXPECT_EQ(Broken("{\"a\": adamw}"), R"(
f:1:7
This is no JSON value:
1| {"a": adamw}
         ^
Values are numbers, "strings", true, false, null, [lists] and {objects}.
)");
}

TEST(JsonDocument, AStringEndsOnItsLine) {
  EXPECT_EQ(Broken("{\"a\": \"x,\n\"b\": 1}"), R"(
f:1:10
This string has no closing quote on its line:
1| {"a": "x,
            ^
Write a line break inside a string as \n.
)");
}

TEST(JsonDocument, ARawTabInAStringIsNoEscape) {
  EXPECT_EQ(Broken("{\"a\": \"x\ty\"}"), R"(
f:1:9
A string cannot hold this control character:
1| {"a": "x    y"}
           ^^^^
Write a tab as \t, others as \u and four hexadecimal digits.
)");
}

TEST(JsonDocument, AnUnknownEscapeIsShown) {
  EXPECT_EQ(Broken("{\"a\": \"C:\\data\"}"), R"(
f:1:10
This backslash escape does not exist in JSON:
1| {"a": "C:\data"}
            ^
Write a backslash itself as \\ (two backslashes).
)");
}

TEST(JsonDocument, EveryOtherMistakeHasItsOwnSentence) {
  const auto sentence = [](const std::string& text) {
    const std::string broken = Broken(text);
    const size_t second = broken.find('\n', 1) + 1;
    return broken.substr(second, broken.find('\n', second) - second);
  };
  EXPECT_EQ(sentence(""), "There is no JSON value here:");
  EXPECT_EQ(sentence(" // only a comment\n"), "There is no JSON value here:");
  EXPECT_EQ(sentence("{} {}"), "The JSON value ended before this:");
  EXPECT_EQ(sentence("{a: 1}"), "A key in double quotes was expected here:");
  EXPECT_EQ(sentence("{\"a\" 1}"), "A colon between key and value was expected here:");
  EXPECT_EQ(sentence("[,]"), "This is no JSON value:");
  EXPECT_EQ(sentence("[1,,]"), "This is no JSON value:");
  EXPECT_EQ(sentence("{,}"), "A key in double quotes was expected here:");
  EXPECT_EQ(sentence("[1, \"/*\" 2]"), "A comma or a closing ] was expected here:");
  EXPECT_EQ(sentence("[1 2]"), "A comma or a closing ] was expected here:");
  EXPECT_EQ(sentence("[1e999]"), "This number is too big:");
  EXPECT_EQ(sentence("[1.]"), "A digit after the decimal point was expected here:");
  EXPECT_EQ(sentence("[1e]"), "A digit of the exponent was expected here:");
  EXPECT_EQ(sentence("[\"\\ud800\"]"), "This \\u escape is not a valid character:");
  EXPECT_EQ(sentence("[\"\xff\"]"), "This is not UTF-8 text:");
  EXPECT_EQ(sentence("/* "), "The text ends here, in the middle of a value:");
  EXPECT_EQ(sentence(std::string("[1]\0[2]", 7)),
            "There is a NUL byte here; this is no text file:");
  EXPECT_EQ(sentence(std::string(100000, '[')), "Brackets are nested more than 32 deep here:");
}

}  // namespace
}  // namespace ddprun::trainer
