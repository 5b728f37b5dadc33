// The parts of tokenizers on their own: UTF-8, words, merges, added tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "trainer/text/added_tokens.h"
#include "trainer/text/byte_pair.h"
#include "trainer/text/byte_trie.h"
#include "trainer/text/merge_table.h"
#include "trainer/text/unicode.h"
#include "trainer/text/utf8.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;

std::string Valid(std::string_view bytes) {
  std::string storage;
  return std::string(ValidUtf8(bytes, storage));
}

TEST(Utf8Test, GivesValidTextBackWithoutACopy) {
  const std::string text = "plain text, \u00e9 \u4e2d \U0001f600 and more of it";
  std::string storage;
  EXPECT_EQ(ValidUtf8(text, storage).data(), text.data());
}

TEST(Utf8Test, ReplacesEachMaximalPartOfACharacter) {
  EXPECT_EQ(Valid("a\x80z"), "a\uFFFDz");
  EXPECT_EQ(Valid("a\xE2\x82z"), "a\uFFFDz");                        // cut short: one part
  EXPECT_EQ(Valid("\xF0\x9F\x98"), "\uFFFD");                        // at the end of the text
  EXPECT_EQ(Valid("\xC0\xAF"), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(Valid("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // a surrogate
  EXPECT_EQ(Valid("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // above U+10FFFF
  EXPECT_EQ(Valid("12345678\xFF"), "12345678\uFFFD");
}

TEST(Utf8Test, WritesWhatItReads) {
  for (const char32_t c :
       {U'\0', U'a', U'\u0080', U'\u07ff', U'\u0800', U'\uffff', U'\U00010000', U'\U0010ffff'}) {
    std::string bytes;
    AppendCharacter(c, bytes);
    EXPECT_EQ(Valid(bytes), bytes);
    size_t at = 0;
    EXPECT_EQ(NextCharacter(bytes, at), c);
    EXPECT_EQ(at, bytes.size());
  }
}

std::vector<std::string> Words(std::string_view text, WordRule rule) {
  std::vector<std::string> words;
  while (!text.empty()) {
    words.emplace_back(text.substr(0, FirstWord(text, rule)));
    text.remove_prefix(words.back().size());
  }
  return words;
}

TEST(FirstWordTest, LeavesOneBlankToTheWordBehind) {
  EXPECT_THAT(Words("a  b\t\tc  ", WordRule::kGpt2),
              ElementsAre("a", " ", " b", "\t", "\t", "c", "  "));
  EXPECT_THAT(Words("a  b\t\tc  ", WordRule::kLlama3),
              ElementsAre("a", " ", " b", "\t", "\tc", "  "));
}

TEST(FirstWordTest, CutsContractions) {
  EXPECT_THAT(Words("it's WE'LL 'x", WordRule::kGpt2),
              ElementsAre("it", "'s", " WE", "'", "LL", " '", "x"));
  EXPECT_THAT(Words("it's WE'LL 'x", WordRule::kLlama3),
              ElementsAre("it", "'s", " WE", "'LL", " '", "x"));
}

TEST(FirstWordTest, KeepsDigitsTogetherAsTheRuleSays) {
  EXPECT_THAT(Words("12345", WordRule::kGpt2), ElementsAre("12345"));
  EXPECT_THAT(Words("12345", WordRule::kLlama3), ElementsAre("123", "45"));
  EXPECT_THAT(Words("123", WordRule::kOneDigit), ElementsAre("1", "2", "3"));
}

TEST(FirstWordTest, GivesLineBreaksToThePunctuationBeforeThemOrToOneWord) {
  EXPECT_THAT(Words("a.\n\n b", WordRule::kLlama3), ElementsAre("a", ".\n\n", " b"));
  EXPECT_THAT(Words("a \n\n  b", WordRule::kLlama3), ElementsAre("a", " \n\n", " ", " b"));
  EXPECT_THAT(Words("a.\n\n b", WordRule::kGpt2), ElementsAre("a", ".", "\n\n", " b"));
}

TEST(UnicodeTest, AnswersForTheVersionThatThePeerHas) {
  EXPECT_TRUE(IsBertPunctuation('$'));
  EXPECT_TRUE(IsBertPunctuation(0x3001));
  EXPECT_FALSE(IsBertPunctuation(0x20AC));            // a symbol
  EXPECT_FALSE(IsBertPunctuation(0x2E52));            // came after Unicode 8
  EXPECT_EQ(KindOf(0x1C8A), CharacterKind::kLetter);  // of Unicode 16
  EXPECT_EQ(KindOf(0x0661), CharacterKind::kNumber);
  EXPECT_EQ(KindOf(0x0085), CharacterKind::kSpace);
  EXPECT_EQ(KindOf(0x0301), CharacterKind::kOther);
}

TEST(AlphabetTest, SpellsEveryByteWithAnotherCharacter) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling;
    AppendCharacter(AlphabetCharacter(static_cast<uint8_t>(byte)), spelling);
    EXPECT_EQ(BytesOfToken(spelling), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(AlphabetCharacter(' '), U'\u0120');
  EXPECT_EQ(BytesOfToken("a b"), std::nullopt);
}

// The definition, word for word.
std::vector<int32_t> MergeSlowly(const std::vector<Merge>& merges, std::vector<int32_t> symbols) {
  for (;;) {
    size_t best = symbols.size();
    size_t best_rank = merges.size();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].left == symbols[i] && merges[rank].right == symbols[i + 1]) {
          best = i;
          best_rank = rank;
        }
      }
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = merges[best_rank].result;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(MergeTableTest, EqualsTheDefinitionForShortAndLongWords) {
  std::mt19937 random(5);
  std::vector<Merge> merges;
  for (int32_t result = 4; result < 60; ++result) {
    const auto symbol = [&] { return static_cast<int32_t>(random() % result); };
    Merge merge{.left = symbol(), .right = symbol(), .result = result};
    const bool known = std::any_of(merges.begin(), merges.end(), [&](const Merge& other) {
      return other.left == merge.left && other.right == merge.right;
    });
    if (!known) merges.push_back(merge);
  }
  const MergeTable table(merges);
  for (int length = 0; length < 140; ++length) {
    std::vector<int32_t> symbols(length);
    for (int32_t& symbol : symbols) symbol = static_cast<int32_t>(random() % 4);
    const std::vector<int32_t> expected = MergeSlowly(merges, symbols);
    table.Apply(symbols);
    EXPECT_EQ(symbols, expected) << "length " << length;
  }
}

TEST(ByteTrieTest, FindsTheLongestKey) {
  ByteTrie trie;
  trie.Insert("a", 1);
  trie.Insert("abc", 2);
  trie.Insert("", 3);
  for (int i = 0; i < 1000; ++i) trie.Insert("key " + std::to_string(i), 10 + i);
  EXPECT_EQ(trie.Longest("abd").value, 1);
  EXPECT_EQ(trie.Longest("abcd").length, 3U);
  EXPECT_EQ(trie.Longest("xyz").length, 0U);
  EXPECT_EQ(trie.Longest("key 999.").value, 1009);
}

std::string Split(const AddedTokenFinder& finder, std::string_view text) {
  std::string parts;
  finder.Split(
      text, [&](std::string_view part) { parts += "(" + std::string(part) + ")"; },
      [&](int32_t id) { parts += std::to_string(id); });
  return parts;
}

TEST(AddedTokenFinderTest, TakesTheLongestAndTheSpaceThatItStrips) {
  AddedTokenFinder finder;
  finder.Add({.id = 1, .content = "<a>"});
  finder.Add({.id = 2, .content = "<a><b>"});
  finder.Add({.id = 3, .content = "<m>", .left_strip = true});
  finder.Add({.id = 4, .content = "<r>", .right_strip = true});
  EXPECT_EQ(Split(finder, "x<a>y<a><b>z<a"), "(x)1(y)2(z<a)");
  EXPECT_EQ(Split(finder, "x \u3000<m> y<r> \n z"), "(x)3( y)4(z)");
  EXPECT_EQ(Split(finder, "<r>  <m>"), "43");
  EXPECT_EQ(Split(finder, ""), "");
}

}  // namespace
}  // namespace ddprun::trainer
