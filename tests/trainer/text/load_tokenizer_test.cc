// An error names the fault in a tokenizer's files, and nothing is tokenized.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "tests/trainer/text/temp_tokenizer.h"
#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {
namespace {

using testing::HasSubstr;

Error LoadingError(const TempTokenizer& folder) {
  try {
    LoadTokenizer(folder.path());
  } catch (const Failure& failure) {
    return failure.error();
  }
  return {};
}

// A byte-level BPE in which one part is replaced.
std::string BytePairJson(const std::string& from = "", const std::string& to = "") {
  std::string text =
      R"({"added_tokens": [{"id": 3, "content": "<e>", "special": true}], "normalizer": null,
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
      "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "dropout": null, "unk_token": null, "byte_fallback": false,
                "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})";
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(LoadTokenizerTest, ReadsMergesOfBothSpellingsAndFilesWithoutAType) {
  for (const auto& [from, to] : {std::pair("", ""), std::pair(R"(["a", "b"])", R"("a b")"),
                                 std::pair(R"("type": "BPE", )", "")}) {
    TempTokenizer folder;
    folder.Write("tokenizer.json", BytePairJson(from, to));
    std::vector<int32_t> ids;
    LoadTokenizer(folder.path())->Encode("abb<e>", ids);
    EXPECT_EQ(ids, (std::vector<int32_t>{2, 1, 3}));
  }
}

TEST(LoadTokenizerTest, TakesAFileInPlaceOfItsFolder) {
  TempTokenizer folder;
  folder.Write("tokenizer.json", "broken");
  EXPECT_EQ(LoadTokenizer(folder.Write("vocab.txt", kVocabulary))->vocab_size(), 15);
}

TEST(LoadTokenizerTest, RefusesWhatItDoesNotHaveByName) {
  const std::vector<std::vector<std::string>> cases = {
      {R"("normalizer": null)", R"("normalizer": {"type": "NFKC"})", "normalizer is NFKC"},
      {R"("type": "BPE")", R"("type": "Unigram")", "model is Unigram"},
      {R"("dropout": null)", R"("dropout": 0.1)", "\"dropout\": 0.1"},
      {R"("byte_fallback": false)", R"("byte_fallback": true)", "byte_fallback"},
      {R"("unk_token": null)", R"("unk_token": "<e>")", "no token for the byte 0"},
      {R"("decoder": {"type": "ByteLevel"})", R"("decoder": {"type": "Metaspace"})", "Metaspace"},
      {R"("special": true)", R"("single_word": true)", "single_word"},
      {R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})",
       R"({"type": "Whitespace"})", "pre_tokenizer is Whitespace"},
      {R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})",
       R"({"type": "Sequence", "pretokenizers": [
           {"type": "Split", "pattern": {"Regex": "x+"}, "behavior": "Isolated", "invert": false},
           {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})",
       "splits by x+"}};
  for (const auto& one : cases) {
    TempTokenizer folder;
    folder.Write("tokenizer.json", BytePairJson(one[0], one[1]));
    const Error error = LoadingError(folder);
    EXPECT_EQ(error.page, "unsupported-tokenizer") << one[1];
    EXPECT_THAT(error.what, HasSubstr(one[2]));
    EXPECT_THAT(error.where, HasSubstr("tokenizer.json"));
  }
}

TEST(LoadTokenizerTest, SaysWhatIsBroken) {
  const std::vector<std::vector<std::string>> cases = {
      {R"(["a", "b"])", R"(["a", "x"])", "merge of \"a\" and \"x\""},
      {R"(["a", "b"])", R"("a b c")", "not two tokens"},
      {R"(["a", "b"])", "7", "A merge is 7"},
      {R"("ab": 2)", R"("ab": -2)", "id -2"},
      {R"("ab": 2)", R"("ab": 99999999999)", "id 99999999999"},
      {R"("ab": 2)", R"("ab": "2")", "id \"2\""},
      {R"({"a": 0, "b": 1, "ab": 2})", "[]", "vocabulary"},
      {R"("id": 3)", R"("id": -3)", "\"<e>\" has no id"},
      {R"("content": "<e>")", R"("content": 5)", "An added token is"},
      {R"("type": "BPE")", R"("type": 5)", "\"type\" is 5"},
      {R"("model": {)", R"("model": 1, "x": {)", "no \"model\""},
      {R"("normalizer": null)", R"("normalizer": null,,)", "no JSON"}};
  for (const auto& one : cases) {
    TempTokenizer folder;
    folder.Write("tokenizer.json", BytePairJson(one[0], one[1]));
    const Error error = LoadingError(folder);
    EXPECT_EQ(error.page, "broken-tokenizer") << one[1];
    EXPECT_THAT(error.what, HasSubstr(one[2]));
  }
}

// With a post_processor, and what it puts around a text.
SpecialIds SpecialOf(const std::string& post_processor) {
  TempTokenizer folder;
  folder.Write("tokenizer.json",
               BytePairJson(R"("normalizer": null)",
                            R"("normalizer": null, "post_processor": )" + post_processor));
  return LoadTokenizer(folder.path())->special();
}

TEST(LoadTokenizerTest, ReadsWhatStandsAroundATextFromThePostProcessor) {
  using Ids = std::vector<int32_t>;
  const std::string around = R"({"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "x"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "y"}}],
      "special_tokens": {"x": {"tokens": ["<e>", "a"]}, "y": {"tokens": ["b"]}}})";
  EXPECT_EQ(SpecialOf("null").before, Ids{});
  EXPECT_EQ(SpecialOf(R"({"type": "ByteLevel"})").before, Ids{});
  EXPECT_EQ(SpecialOf(around).before, (Ids{3, 0}));
  EXPECT_EQ(SpecialOf(around).after, Ids{1});
  const std::string two =
      R"({"type": "Sequence", "processors": [)" + around +
      R"(, {"type": "RobertaProcessing", "sep": ["<e>", 3], "cls": ["ab", 2]}]})";
  EXPECT_EQ(SpecialOf(two).before, (Ids{2, 3, 0}));
  EXPECT_EQ(SpecialOf(two).after, (Ids{1, 3}));
}

TEST(LoadTokenizerTest, RefusesPostProcessorsItDoesNotKnow) {
  const auto complaint = [](const std::string& post_processor) {
    try {
      SpecialOf(post_processor);
    } catch (const Failure& failure) {
      return failure.error().what;
    }
    return std::string();
  };
  EXPECT_THAT(complaint(R"({"type": "New"})"), HasSubstr("post_processor is New"));
  EXPECT_THAT(complaint(R"({"type": "TemplateProcessing"})"), HasSubstr("another kind"));
  EXPECT_THAT(complaint("[]"), HasSubstr("another kind"));
  EXPECT_THAT(complaint(R"({"type": "BertProcessing", "sep": ["q", 1], "cls": ["a", 0]})"),
              HasSubstr("the token \"q\" to texts"));
}

TEST(LoadTokenizerTest, SurvivesEveryTruncationOfAFile) {
  const std::string whole = BytePairJson();
  for (size_t length = 0; length < whole.size(); length += 3) {
    TempTokenizer folder;
    folder.Write("tokenizer.json", whole.substr(0, length));
    EXPECT_EQ(LoadingError(folder).page, "broken-tokenizer");
  }
}

TEST(LoadTokenizerTest, SaysWhatAFolderWithoutATokenizerLacks) {
  TempTokenizer folder;
  folder.Write("vocab.json", kBytePairVocabulary);  // alone
  EXPECT_EQ(LoadingError(folder).page, "no-tokenizer");
  EXPECT_THROW(LoadTokenizer("/nonexistent/folder"), Failure);
}

TEST(LoadTokenizerTest, WantsTheUnknownTokenInTheVocabulary) {
  TempTokenizer folder;
  folder.Write("vocab.txt", "a\nb\n");
  EXPECT_THAT(LoadingError(folder).what, HasSubstr("\"[UNK]\", is on none of its 2 lines"));
  folder.Write("tokenizer_config.json", R"({"unk_token": {"content": "b"}})");
  EXPECT_EQ(LoadTokenizer(folder.path())->special().unknown, 1);
}

TEST(LoadTokenizerTest, AddsSpecialTokensThatTheVocabularyLacksBehindIt) {
  TempTokenizer folder;
  folder.Write("vocab.txt", "[UNK]\r\na\r\n[SEP]\r\n");
  const auto tokenizer = LoadTokenizer(folder.path());
  EXPECT_EQ(tokenizer->Find("a"), 1);
  EXPECT_EQ(tokenizer->Find("[PAD]"), 3);
  EXPECT_EQ(tokenizer->Find("[CLS]"), 4);
  EXPECT_EQ(tokenizer->vocab_size(), 6);
}

TEST(LoadTokenizerTest, TakesAddedTokensFromTheConfig) {
  TempTokenizer folder;
  folder.Write("vocab.txt", kVocabulary);
  folder.Write("tokenizer_config.json",
               R"({"added_tokens_decoder": {"20": {"content": "<x>", "special": true}}})");
  std::vector<int32_t> ids;
  LoadTokenizer(folder.path())->Encode("the<x>dog", ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{5, 20, 9}));
}

// A lower-casing WordPiece: [UNK] 0, a 1, b 2, tool 3, Tool 4; Tool 5 is added.
std::string WordPieceJson(const std::string& normalized = "true") {
  return R"({"added_tokens": [{"id": 5, "content": "Tool", "special": false, "normalized": )" +
         normalized + R"(}], "normalizer": {"type": "BertNormalizer", "lowercase": true},
      "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece"},
      "model": {"type": "WordPiece", "unk_token": "[UNK]",
                "vocab": {"[UNK]": 0, "a": 1, "A": 2, "tool": 3, "\u4e2d": 4, "\u4e2db": 6}}})";
}

std::vector<int32_t> IdsOf(const TempTokenizer& folder, std::string_view text) {
  std::vector<int32_t> ids;
  LoadTokenizer(folder.path())->Encode(text, ids);
  return ids;
}

TEST(LoadTokenizerTest, TakesTheClassOfTheModelIfTheTokenizerNamesNone) {
  using Ids = std::vector<int32_t>;
  const auto ids = [](const std::string& tokenizer, const std::string& model) {
    TempTokenizer folder;
    folder.Write("tokenizer.json", WordPieceJson());
    folder.Write("tokenizer_config.json",
                 R"({"do_lower_case": false, "tokenize_chinese_chars": false)" + tokenizer + "}");
    if (!model.empty()) folder.Write("config.json", "{" + model + "}");
    return IdsOf(folder, "A \u4e2db");
  };
  const Ids as_the_file_says = {1, 4, 0};
  const Ids as_bert = {2, 6};
  const Ids as_mpnet = {2, 4, 0};
  EXPECT_EQ(ids("", ""), as_the_file_says);
  EXPECT_EQ(ids("", R"("model_type": "gpt2")"), as_the_file_says);
  EXPECT_EQ(ids("", R"("model_type": "bert")"), as_bert);
  EXPECT_EQ(ids("", R"("model_type": "new", "tokenizer_class": "ElectraTokenizer")"), as_bert);
  const std::string bert = R"("model_type": "bert")";
  for (const char* name : {"BertTokenizer", "DistilBertTokenizerFast", "ElectraTokenizerFast",
                           "DPRQuestionEncoderTokenizer"}) {
    EXPECT_EQ(ids(std::string(R"(, "tokenizer_class": ")") + name + '"', ""), as_bert) << name;
  }
  EXPECT_EQ(ids(R"(, "tokenizer_class": "MPNetTokenizerFast")", bert), as_mpnet);
  EXPECT_EQ(ids(R"(, "tokenizer_class": "PreTrainedTokenizerFast")", bert), as_the_file_says);
}

TEST(LoadTokenizerTest, BeginsATextAsTheClassOfLlamaDoes) {
  TempTokenizer folder;
  folder.Write("tokenizer.json", BytePairJson());
  folder.Write("tokenizer_config.json", R"({"bos_token": "<e>"})");
  EXPECT_TRUE(LoadTokenizer(folder.path())->special().before.empty());
  folder.Write("config.json", R"({"model_type": "mistral"})");
  EXPECT_EQ(LoadTokenizer(folder.path())->special().before, std::vector<int32_t>{3});
}

TEST(LoadTokenizerTest, TakesTheFlagsOfAnAddedTokenFromTheConfig) {
  using Ids = std::vector<int32_t>;
  // A token is found as both files say, in the text as it is and in lower case.
  for (const auto& [in_json, in_config, lower] :
       {std::tuple("true", "false", 5), {"false", "true", 5}, {"false", "false", 3}}) {
    TempTokenizer folder;
    folder.Write("tokenizer.json", WordPieceJson(in_json));
    folder.Write("tokenizer_config.json", std::string(R"({"added_tokens_decoder": {"5": {
        "content": "Tool", "lstrip": true, "special": true, "normalized": )") +
                                              in_config + "}}}");
    const auto tokenizer = LoadTokenizer(folder.path());
    EXPECT_EQ(IdsOf(folder, "a Tool a"), (Ids{1, 5, 1}));
    EXPECT_EQ(IdsOf(folder, "a tool a"), (Ids{1, lower, 1})) << in_json << in_config;
    EXPECT_EQ(tokenizer->Decode(Ids{1, 5, 1}), "a a");
  }
  TempTokenizer folder;
  folder.Write("tokenizer.json", BytePairJson());
  folder.Write("tokenizer_config.json",
               R"({"added_tokens_decoder": {"9": {"content": "<e>", "rstrip": true}}})");
  EXPECT_EQ(IdsOf(folder, "a<e>  a"), (Ids{0, 3, 0}));
  EXPECT_EQ(LoadTokenizer(folder.path())->Decode(Ids{0, 3, 0}), "aa");
}

TEST(LoadTokenizerTest, AddsExtraSpecialTokensInTheirOrderBehindTheOthers) {
  for (const char* extra :
       {R"({"tool": "<t>", "image": {"content": "<i>"}})", R"(["<t>", "<i>"])"}) {
    TempTokenizer folder;
    folder.Write("tokenizer.json", BytePairJson());
    folder.Write("tokenizer_config.json",
                 std::string(R"({"additional_special_tokens": ["<z>"], "extra_special_tokens": )") +
                     extra + "}");
    EXPECT_EQ(IdsOf(folder, "<i>a<t><z>"), (std::vector<int32_t>{6, 0, 5, 4}));
    EXPECT_EQ(LoadTokenizer(folder.path())->Decode(std::vector<int32_t>{6, 0, 5}), "a");
  }
}

TEST(LoadTokenizerTest, RefusesToSplitSpecialTokens) {
  TempTokenizer folder;
  folder.Write("tokenizer.json", BytePairJson());
  folder.Write("tokenizer_config.json", R"({"split_special_tokens": false})");
  EXPECT_EQ(IdsOf(folder, "<e>"), std::vector<int32_t>{3});
  folder.Write("tokenizer_config.json", R"({"split_special_tokens": true})");
  EXPECT_EQ(LoadingError(folder).page, "unsupported-tokenizer");
  EXPECT_THAT(LoadingError(folder).what, HasSubstr("split_special_tokens"));
}

TEST(LoadTokenizerTest, CleansDecodedTextUpIfTheConfigSaysSo) {
  TempTokenizer folder;
  folder.Write("tokenizer.json", BytePairJson(R"({"a": 0, "b": 1, "ab": 2})",
                                              R"({"a": 0, "b": 1, "ab": 2, "\u0120": 4,
                   "!": 5, "'": 6, "s": 7, "\u0120do\u0120not": 8})"));
  const std::vector<int32_t> ids = {0, 4, 5, 0, 4, 6, 7, 8, 4, 4, 5};
  EXPECT_EQ(LoadTokenizer(folder.path())->Decode(ids), "a !a 's do not  !");
  folder.Write("tokenizer_config.json", R"({"clean_up_tokenization_spaces": true})");
  EXPECT_EQ(LoadTokenizer(folder.path())->Decode(ids), "a!a's do not !");
}

}  // namespace
}  // namespace ddprun::trainer
