// The tokenizers on texts small enough to check by hand; peer_test.py has the many others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/cpus.h"
#include "base/failure.h"
#include "tests/trainer/text/temp_tokenizer.h"
#include "trainer/text/encode_pair.h"
#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::vector<int32_t> Encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  tokenizer.Encode(text, ids);
  return ids;
}

class WordPieceTest : public testing::Test {
 protected:
  std::unique_ptr<Tokenizer> Load(std::string_view config = "{}") const {
    folder_.Write("vocab.txt", kVocabulary);
    folder_.Write("tokenizer_config.json", config);
    return LoadTokenizer(folder_.path());
  }
  TempTokenizer folder_;
};

TEST_F(WordPieceTest, TakesTheLongestPiecesFromTheLeft) {
  const auto tokenizer = Load();
  EXPECT_THAT(Encode(*tokenizer, "the quicker dogs, unaffable."),
              ElementsAre(5, 6, 7, 9, 8, 11, 12, 13, 14, 10));
}

TEST_F(WordPieceTest, MakesAWordUnknownWhenAnyPieceIsMissing) {
  const auto tokenizer = Load();
  EXPECT_THAT(Encode(*tokenizer, "the unaffx dog"), ElementsAre(5, 1, 9));
}

TEST_F(WordPieceTest, LowersCaseAndStripsAccentsUnlessTheConfigSaysOtherwise) {
  EXPECT_THAT(Encode(*Load(), "THE d\u00f3g"), ElementsAre(5, 9));
  EXPECT_THAT(Encode(*Load(R"({"do_lower_case": false})"), "THE the"), ElementsAre(1, 5));
  EXPECT_THAT(Encode(*Load(R"({"strip_accents": false})"), "THE d\u00f3g"), ElementsAre(5, 1));
}

TEST_F(WordPieceTest, FindsSpecialTokensInTheTextEvenWithinWords) {
  EXPECT_THAT(Encode(*Load(), "the[SEP]dog [MASK]"), ElementsAre(5, 3, 9, 4));
}

TEST_F(WordPieceTest, TakesOutWhatIsNoUtf8AndJoinsWhatStoodAroundIt) {
  EXPECT_THAT(Encode(*Load(), "do\xFFg \xE2\x82 the"), ElementsAre(9, 5));
}

TEST_F(WordPieceTest, KnowsNoWordOfMoreThan100Characters) {
  const auto tokenizer = Load();
  std::string dogs = "dog";
  while (dogs.size() < 100) dogs += 's';
  EXPECT_EQ(Encode(*tokenizer, dogs).size(), 98U);
  EXPECT_THAT(Encode(*tokenizer, dogs + "s"), ElementsAre(1));
}

TEST_F(WordPieceTest, OrdersCombiningCharactersAcrossOneAnotherBeforeItLooksForPieces) {
  folder_.Write("vocab.txt", "[UNK]\na\n##\u302e\n##\U0001d165\n");
  const auto tokenizer = LoadTokenizer(folder_.path());
  const int32_t tone = tokenizer->Find("##\u302e");      // combining class 224
  const int32_t stem = tokenizer->Find("##\U0001d165");  // 216: goes first
  EXPECT_THAT(Encode(*tokenizer, "a\u302e\U0001d165 a"), ElementsAre(1, stem, tone, 1));
}

TEST_F(WordPieceTest, DecodesWithoutSpecialTokensAndWithPunctuationAtItsPlace) {
  const std::vector<int32_t> ids = {2, 5, 6, 7, 9, 8, 10, 3, 9999, -7};
  EXPECT_EQ(Load()->Decode(ids), "the quicker dogs.");
}

TEST_F(WordPieceTest, SaysItsSpecialIdsAndSize) {
  const auto tokenizer = Load();
  EXPECT_EQ(tokenizer->vocab_size(), 15);
  EXPECT_EQ(tokenizer->special().cls, 2);
  EXPECT_EQ(tokenizer->special().sep, 3);
  EXPECT_EQ(tokenizer->special().pad, 0);
  EXPECT_EQ(tokenizer->special().eos, -1);
}

TEST_F(WordPieceTest, PutsTwoTextsTogetherAsAClassifierReadsThem) {
  const auto tokenizer = Load();
  const EncodedPair pair = EncodePair(*tokenizer, "the dog", "quicker dogs", 32);
  EXPECT_THAT(pair.ids, ElementsAre(2, 5, 9, 3, 6, 7, 9, 8, 3));
  EXPECT_EQ(pair.second_begin, 4);
  const EncodedPair single = EncodePair(*tokenizer, "the dog", std::nullopt, 3);
  EXPECT_THAT(single.ids, ElementsAre(2, 5, 3));
  EXPECT_EQ(single.second_begin, 3);
  const EncodedPair cut = EncodePair(*tokenizer, "the dog dog dog", "quicker", 7);
  EXPECT_THAT(cut.ids, ElementsAre(2, 5, 9, 3, 6, 7, 3));
}

TEST(TruncateLongestFirstTest, CutsTheLongerThenBothToHalf) {
  EXPECT_THAT(TruncateLongestFirst(3, 4, 7), Pair(3, 4));
  EXPECT_THAT(TruncateLongestFirst(3, 9, 7), Pair(3, 4));
  EXPECT_THAT(TruncateLongestFirst(9, 3, 7), Pair(4, 3));
  EXPECT_THAT(TruncateLongestFirst(8, 9, 7), Pair(3, 4));
  EXPECT_THAT(TruncateLongestFirst(9, 8, 7), Pair(4, 3));
  EXPECT_THAT(TruncateLongestFirst(9, 9, 7), Pair(3, 4));
  EXPECT_THAT(TruncateLongestFirst(0, 9, 0), Pair(0, 0));
}

class BytePairTest : public testing::Test {
 protected:
  BytePairTest() {
    folder_.Write("vocab.json", kBytePairVocabulary);
    folder_.Write("merges.txt", kMerges);
    tokenizer_ = LoadTokenizer(folder_.path());
  }
  TempTokenizer folder_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(BytePairTest, MergesTheLowestRankFirst) {
  EXPECT_THAT(Encode(*tokenizer_, "abcd"), ElementsAre(7));
  EXPECT_THAT(Encode(*tokenizer_, "bcda cab"), ElementsAre(1, 6, 0, 4, 2, 5));
}

TEST_F(BytePairTest, LeavesOutBytesThatAreNoToken) {
  EXPECT_THAT(Encode(*tokenizer_, "axxb"), ElementsAre(5));
  EXPECT_THAT(Encode(*tokenizer_, "\xFF\n"), IsEmpty());
}

TEST_F(BytePairTest, MergesLongWordsAsShortOnes) {
  std::string word;
  for (int i = 0; i < 5000; ++i) word += "abcd";
  const std::vector<int32_t> ids = Encode(*tokenizer_, word);
  EXPECT_EQ(ids, std::vector<int32_t>(5000, 7));
}

TEST_F(BytePairTest, FindsAndLeavesOutTheEndOfText) {
  const std::vector<int32_t> ids = Encode(*tokenizer_, "ab<|endoftext|> cd");
  EXPECT_THAT(ids, ElementsAre(5, 8, 4, 6));
  EXPECT_EQ(tokenizer_->Decode(ids), "ab cd");
  EXPECT_EQ(tokenizer_->special().eos, 8);
}

TEST_F(BytePairTest, GivesTwoTokenizersOfOneThreadTheirOwnWords) {
  TempTokenizer other_folder;
  other_folder.Write("vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  other_folder.Write("merges.txt", "a b\n");
  const auto other = LoadTokenizer(other_folder.path());
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Encode(*tokenizer_, "ab"), ElementsAre(5));
    EXPECT_THAT(Encode(*other, "ab"), ElementsAre(2));
  }
}

TEST_F(BytePairTest, GivesManyThreadsTheIdsOfOne) {
  std::vector<std::string> texts;
  for (int i = 0; i < 500; ++i) {
    texts.push_back(std::string(static_cast<size_t>(i % 7), 'a') + "bcd ab" + std::string(i, 'c'));
  }
  std::vector<std::vector<int32_t>> ids(texts.size());
  RunInParts(4, texts.size(), 32, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) tokenizer_->Encode(texts[i], ids[i]);
  });
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(ids[i], Encode(*tokenizer_, texts[i]));
}

}  // namespace
}  // namespace ddprun::trainer
