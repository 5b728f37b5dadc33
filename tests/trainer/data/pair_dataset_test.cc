#include "trainer/data/pair_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/failure.h"
#include "tests/golden/golden_file.h"
#include "tests/trainer/data/scratch_folder.h"
#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::vector<int64_t>> Rows(const at::Tensor& tensor) {
  std::vector<std::vector<int64_t>> rows;
  const auto* data = tensor.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < tensor.size(0); ++i, data += tensor.size(1)) {
    rows.emplace_back(data, data + tensor.size(1));
  }
  return rows;
}

class Pairs : public testing::Test {
 protected:
  Pairs() : golden_(golden::Read("pair_batch.json")) {
    std::string vocab;
    for (const json& token : golden_.at("vocab")) vocab += token.get<std::string>() + "\n";
    scratch_.Write("model/vocab.txt", vocab);
    scratch_.Write("model/tokenizer_config.json", R"({"do_lower_case": false})");
    tokenizer_ = LoadTokenizer(scratch_.Path("model"));
  }

  // The data set of one file's contents.
  PairDataset Open(const std::string& name,
                   const std::string& contents,
                   PairDatasetOptions options = {}) const {
    options.files = {scratch_.Write(name, contents)};
    return {options, tokenizer_};
  }
  Error ErrorOf(const std::string& name,
                const std::string& contents,
                const PairDatasetOptions& options = {}) const {
    try {
      Open(name, contents, options);
    } catch (const Failure& failure) {
      return failure.error();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
  }

  const ScratchFolder scratch_;
  const json golden_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

std::vector<int64_t> Classes(const PairDataset& data) {
  std::vector<int64_t> all(static_cast<size_t>(data.size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  const at::Tensor targets = data.Get(all).targets;
  const auto* values = targets.const_data_ptr<int64_t>();
  return {values, values + targets.numel()};
}

TEST_F(Pairs, ArePaddedAndTruncatedAsTransformersDoes) {
  for (const bool both : {true, false}) {
    std::string lines;
    for (const json& pair : golden_.at("pairs")) {
      json row = {{"label", 1}, {"sentence1", pair[0]}, {"sentence2", pair[1]}};
      if (!both) row = {{"label", 1}, {"sentence", pair[0]}};
      lines += row.dump() + "\n";
    }
    const PairDataset data =
        Open("rows.jsonl", lines, {.max_length = golden_.at("max_length").get<int64_t>()});
    std::vector<int64_t> all(golden_.at("pairs").size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    const Batch batch = data.Get(all);
    const json& expected = golden_.at(both ? "both" : "single");
    EXPECT_EQ(json(Rows(batch.inputs)), expected.at("input_ids"));
    EXPECT_EQ(json(Rows(batch.attention_mask)), expected.at("attention_mask"));
    EXPECT_EQ(json(Rows(batch.token_type_ids)), expected.at("token_type_ids"));
    const std::vector<int64_t> lengths = data.Lengths();
    for (size_t i = 0; i < all.size(); ++i) {
      const json& mask = expected.at("attention_mask").at(i);
      EXPECT_EQ(lengths[i], std::count(mask.begin(), mask.end(), 1));
    }
  }
}

TEST_F(Pairs, AreNotToldApartIfNotAskedFor) {
  const std::string row = R"({"label": 1, "sentence1": "a", "sentence2": "b"})";
  const std::array<int64_t, 1> first = {0};
  EXPECT_TRUE(Open("with.jsonl", row, {}).Get(first).token_type_ids.defined());
  EXPECT_FALSE(
      Open("without.jsonl", row, {.token_types = false}).Get(first).token_type_ids.defined());
}

TEST_F(Pairs, OfMnliAsPublishedAreReadInAllItsForms) {
  const std::string kinds[] = {"entailment", "neutral", "contradiction"};
  const PairDataset original =
      Open("a.jsonl",
           R"({"gold_label": "neutral", "sentence1": "a", "sentence2": "b", "x": [1]}
{"gold_label": "-", "sentence1": "a", "sentence2": "b"}
{"gold_label": "entailment", "sentence1": "\u00e4 \"q\"", "sentence2": "b"}

{"gold_label": "contradiction", "sentence1": "a", "sentence2": "b"})");
  EXPECT_THAT(original.shape().labels, ElementsAre("contradiction", "entailment", "neutral"));
  EXPECT_THAT(Classes(original), ElementsAre(2, 1, 0));
  EXPECT_THAT(original.Notes(), ElementsAre("1 row skipped that have no label"));

  const PairDataset hub = Open("b.jsonl", R"({"premise": "a", "hypothesis": "b", "label": 2}
{"premise": "a", "hypothesis": "b", "label": -1}
{"premise": "a", "hypothesis": "b", "label": 0}
{"premise": "a", "hypothesis": "b", "label": 1}
)");
  EXPECT_THAT(Classes(hub), ElementsAre(2, 0, 1));
  const PairDataset named = Open("b.jsonl", R"({"premise": "a", "hypothesis": "b", "label": 2})",
                                 {.labels = {kinds[0], kinds[1], kinds[2]}});
  EXPECT_THAT(named.shape().labels, ElementsAre("entailment", "neutral", "contradiction"));
  EXPECT_THAT(Classes(named), ElementsAre(2));

  const PairDataset glue = Open("train.tsv",
                                "index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\r\n"
                                "0\tx\tthe \"dog runs\tthe cat\tneutral\tneutral\r\n"
                                "1\tx\tthe dog\tthe cat\tneutral\tentailment\r\n");
  EXPECT_THAT(glue.shape().labels, ElementsAre("entailment", "neutral"));
  EXPECT_THAT(Classes(glue), ElementsAre(1, 0));

  const PairDataset table = Open("train.csv",
                                 "id,premise,hypothesis,label\r\n"
                                 "0,\"the \"\"dog\"\", runs\",\"the\ncat\",no\r\n"
                                 "1,the dog,runs,yes\n");
  EXPECT_THAT(table.shape().labels, ElementsAre("no", "yes"));
  EXPECT_THAT(Classes(table), ElementsAre(0, 1));
}

TEST_F(Pairs, TakeColumnsByNameAndNumbersByTheirSize) {
  std::string lines;
  for (const char* label : {"10", "9", "2"}) {
    lines += R"({"q": "a dog", "kind": )" + std::string(label) + "}\n";
  }
  const PairDataset data = Open("a.jsonl", lines, {.columns = {"q", "", "kind"}});
  EXPECT_THAT(data.shape().labels, ElementsAre("2", "9", "10"));
  EXPECT_THAT(Classes(data), ElementsAre(2, 1, 0));
}

TEST_F(Pairs, TakeNumbersAsClassesWhereTheModelHasSoMany) {
  const std::string text = "sentence\tlabel\na\t2\nb\t0\n";
  const PairDataset three = Open("t.tsv", text, {.classes = 3});
  EXPECT_THAT(Classes(three), ElementsAre(2, 0));
  EXPECT_EQ(three.shape().classes, 3);
  EXPECT_THAT(three.Notes(), ElementsAre("model.num_labels is 3, but the texts have 2 different "
                                         "labels: \"0\", \"2\""));
  EXPECT_THAT(Open("t.tsv", text, {.classes = 2}).Notes(), IsEmpty());
  EXPECT_THAT(Classes(Open("t.tsv", text, {.classes = 2})), ElementsAre(1, 0));
}

TEST_F(Pairs, BadRowsAreErrorsWithTheirPlace) {
  const std::string good = R"({"sentence": "a", "label": "x"})";
  const auto error = [&](const std::string& row) {
    return ErrorOf("a.jsonl", good + "\n\n" + row);
  };
  EXPECT_EQ(error("{").title, "BAD ROW");
  EXPECT_EQ(error("{").where, scratch_.Path("a.jsonl") + ":3");
  EXPECT_THAT(error("[1]").what, HasSubstr("The line is no JSON object"));
  EXPECT_THAT(error("{\"sentence\": \"\xff\", \"label\": 1}").what, HasSubstr("no JSON object"));
  EXPECT_EQ(error(R"({"label": "x"})").what, "Column \"sentence\" is missing.");
  EXPECT_EQ(error(R"({"sentence": 3, "label": "x"})").what, "Column \"sentence\" is no string.");
  EXPECT_EQ(error(R"({"sentence": "a"})").what, "Column \"label\" is missing.");
  EXPECT_EQ(error(R"({"sentence": "a", "label": 1.5})").what,
            "Column \"label\" is neither a string nor an integer.");
  const auto tabs = [&](const std::string& row) {
    return ErrorOf("a.tsv", "sentence\tlabel\n" + row).what;
  };
  EXPECT_EQ(tabs("a\tb\tc"), "The row has 3 fields; the header has 2.");
  EXPECT_EQ(tabs("\xc3\tb"), "The row is not UTF-8.");
  EXPECT_EQ(tabs("a\t"), "Column \"label\" is empty.");
  const Error commas = ErrorOf("a.csv", "sentence,label\n\"a\nb\",x\n\"a\"b,x\n");
  EXPECT_EQ(commas.where, scratch_.Path("a.csv") + ":4");
  EXPECT_EQ(commas.what, "A field has more text after its closing quote.");
}

TEST_F(Pairs, BadRowsAreSkippedAndCountedOnRequest) {
  const PairDataset data =
      Open("a.tsv", "sentence\tlabel\na\tx\na\nb\na\ty\n", {.skip_bad_rows = true});
  EXPECT_THAT(Classes(data), ElementsAre(0, 1));
  EXPECT_THAT(data.Notes(),
              ElementsAre("2 rows skipped that cannot be read, the first at " +
                          scratch_.Path("a.tsv") + ":3: The row has 1 field; the header has 2."));
}

TEST_F(Pairs, WhatFitsNoWholeFileIsSaid) {
  EXPECT_EQ(ErrorOf("a.jsonl", "").what, "The data files have no row with a label.");
  EXPECT_EQ(ErrorOf("a.jsonl", R"({"x": 1})").what,
            "The first row has no known column for the text; it has \"x\".");
  EXPECT_EQ(ErrorOf("a.jsonl", R"({"text": "a"})").what,
            "The first row has no known column for the label; it has \"text\".");
  EXPECT_EQ(ErrorOf("a.tsv", "text\tlabel\na\tb", {.columns = {"words", "", ""}}).what,
            "The first row has no column \"words\"; it has \"text\", \"label\".");
  EXPECT_THAT(ErrorOf("a.txt", "text,label\na,b\n").what, HasSubstr("ends in .csv"));
  const Error error = ErrorOf("a.jsonl", "\n{\"text\": \"a\", \"label\": \"neutrl\"}",
                              {.labels = {"neutral", "other"}});
  EXPECT_EQ(error.title, "UNKNOWN LABEL");
  EXPECT_EQ(error.where, scratch_.Path("a.jsonl") + ":2");
  EXPECT_EQ(error.what, "The row is labelled \"neutrl\"; the classes are \"neutral\", \"other\".");
  EXPECT_THAT(error.hint, HasSubstr("Did you mean \"neutral\"?"));
}

}  // namespace
}  // namespace ddprun::trainer
