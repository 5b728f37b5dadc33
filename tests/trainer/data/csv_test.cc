#include <ATen/ops/allclose.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/failure.h"
#include "tests/golden/golden_file.h"
#include "tests/trainer/data/scratch_folder.h"
#include "trainer/data/csv_dataset.h"
#include "trainer/data/csv_reader.h"

namespace ddprun::trainer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Records = std::vector<std::vector<std::string>>;

Records All(std::string_view text, char delimiter = ',') {
  CsvReader reader(text, delimiter);
  Records records;
  std::vector<std::string> fields;
  while (reader.Next(fields)) records.push_back(fields);
  return records;
}

// The expected values are those of Python's csv module.
TEST(CsvReader, ReadsFieldsAsRfc4180HasThem) {
  EXPECT_EQ(All(""), Records());
  EXPECT_EQ(All("a,b\nc,d\n"), (Records{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(All("a,b\r\n\r\nc,d"), (Records{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(All("a,,\n,"), (Records{{"a", "", ""}, {"", ""}}));
  EXPECT_EQ(All("\"a,b\",\"c\"\"d\"\"\"\n"), (Records{{"a,b", "c\"d\""}}));
  EXPECT_EQ(All("\"a\r\nb\",c\n\"\",\"\"\n"), (Records{{"a\r\nb", "c"}, {"", ""}}));
  EXPECT_EQ(All("a;b,c", ';'), (Records{{"a", "b,c"}}));
  EXPECT_EQ(All("\xef\xbb\xbf\"a\",b"), (Records{{"a", "b"}}));
  EXPECT_EQ(All(" a , b "), (Records{{" a ", " b "}}));
  EXPECT_EQ(All("a\r,b\n"), (Records{{"a\r", "b"}}));
}

TEST(CsvReader, KnowsLinesAndBrokenQuotes) {
  CsvReader reader("a\n\"b\nc\"\nd\n\"e\"f,g\nh\"i\n\"j\nk", ',');
  std::vector<std::string> fields;
  std::vector<int64_t> lines;
  std::vector<std::string> problems;
  while (reader.Next(fields)) {
    lines.push_back(reader.line());
    problems.push_back(reader.problem());
  }
  EXPECT_THAT(lines, ElementsAre(1, 2, 4, 5, 6, 7));
  EXPECT_THAT(problems, ElementsAre("", "", "", "A field has more text after its closing quote.",
                                    "A quote stands in a field that does not begin with one.",
                                    "A quoted field does not end before the end of the file."));
}

class Csv : public testing::Test {
 protected:
  CsvDataset Open(const std::string& text, CsvDatasetOptions options = {}) const {
    options.files = {scratch_.Write("table.csv", text)};
    if (options.target.empty()) options.target = "kind";
    return CsvDataset(options);
  }
  Error ErrorOf(const std::string& text, const CsvDatasetOptions& options = {}) const {
    try {
      Open(text, options);
    } catch (const Failure& failure) {
      return failure.error();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
  }
  static at::Tensor AllInputs(const CsvDataset& data) {
    std::vector<int64_t> all(static_cast<size_t>(data.size()));
    std::iota(all.begin(), all.end(), 0);
    return data.Get(all).inputs;
  }
  static std::vector<float> Inputs(const CsvDataset& data) {
    const at::Tensor inputs = AllInputs(data);
    const auto* values = inputs.const_data_ptr<float>();
    return {values, values + inputs.numel()};
  }

  const ScratchFolder scratch_;
};

TEST_F(Csv, ClassifiesBySortedNames) {
  const CsvDataset data = Open("x,kind,y\n1,b,2.5\n-3e2,\"a, too\",+4\n5,b,6\n");
  EXPECT_THAT(Inputs(data), ElementsAre(1, 2.5, -300, 4, 5, 6));
  EXPECT_THAT(data.shape().labels, ElementsAre("a, too", "b"));
  EXPECT_THAT(data.shape().input, ElementsAre(2));
  EXPECT_EQ(data.shape().classes, 2);
  const Batch batch = data.Get(std::vector<int64_t>{1, 2});
  EXPECT_EQ(batch.targets[0].item<int64_t>(), 0);
  EXPECT_EQ(batch.targets[1].item<int64_t>(), 1);
  EXPECT_THAT(Open("x,kind\n1,10\n1,9\n").shape().labels, ElementsAre("9", "10"));
}

TEST_F(Csv, PredictsNumbersFromChosenColumns) {
  const CsvDataset data =
      Open("name,x,price,y\nu,1,10.5,3\nv,2,-1,4\n",
           {.target = "price", .features = {"y", "x"}, .target_is_class = false});
  EXPECT_THAT(Inputs(data), ElementsAre(3, 1, 4, 2));
  const Batch batch = data.Get(std::vector<int64_t>{0, 1});
  EXPECT_THAT(batch.targets.sizes(), ElementsAre(2, 1));
  EXPECT_FLOAT_EQ(batch.targets[1][0].item<float>(), -1);
  EXPECT_EQ(data.shape().classes, 0);
  EXPECT_THAT(data.shape().target, ElementsAre(1));
}

TEST_F(Csv, GivesValidationTheTrainingDatasScalesAndLabels) {
  const CsvDataset train = Open("x,c,kind\n1,7,a\n3,7,b\n", {.standardize = true});
  EXPECT_THAT(Inputs(train), ElementsAre(-1, 0, 1, 0));
  const CsvDataset validation =
      Open("kind,c,x\nb,8,5\n", {.standardize = true, .encoding = &train.encoding()});
  EXPECT_THAT(Inputs(validation), ElementsAre(3, 1));
  EXPECT_EQ(validation.Get(std::vector<int64_t>{0}).targets.item<int64_t>(), 1);
  const Error error = ErrorOf("x,c,kind\n1,1,a\n1,1,d\n", {.encoding = &train.encoding()});
  EXPECT_EQ(error.title, "UNKNOWN LABEL");
  EXPECT_EQ(error.where, scratch_.Path("table.csv") + ":3");
}

// Rows that are set aside, as if they stood in a file of their own; bad ones have no number.
TEST_F(Csv, MeasuresOnlyTheRowsThatItTakes) {
  const std::string text =
      "x,c,y,kind\n1,red,,a\n900,red,700,b\nno,red,1,a\n3,blue,5,b\n-900,blue,,a\n5,blue,9,a\n";
  CsvDatasetOptions options{
      .missing = OnMissing::kMean, .standardize = true, .skip_bad_rows = true};
  options.takes = [](int64_t row) { return row == 0 || row == 2 || row == 4; };
  const CsvDataset part = Open(text, options);
  options.takes = [](int64_t row) { return row == 1 || row == 3; };
  options.encoding = &part.encoding();
  const CsvDataset rest = Open(text, options);
  EXPECT_THAT(part.Notes(), ElementsAre(HasSubstr("1 row skipped"), HasSubstr("blue, red")));
  EXPECT_THAT(rest.Notes(), IsEmpty());

  CsvDatasetOptions alone{.missing = OnMissing::kMean, .standardize = true};
  const CsvDataset train = Open("x,c,y,kind\n1,red,,a\n3,blue,5,b\n5,blue,9,a\n", alone);
  alone.encoding = &train.encoding();
  const CsvDataset validation = Open("x,c,y,kind\n900,red,700,b\n-900,blue,,a\n", alone);
  EXPECT_EQ(Inputs(part), Inputs(train));
  EXPECT_EQ(Inputs(rest), Inputs(validation));
  EXPECT_EQ(part.ModelFiles(), train.ModelFiles());
}

TEST_F(Csv, TakesNoCategoriesFromRowsThatAreSetAside) {
  const std::string text = "c,kind\nred,a\nblack,b\nblue,b\n";
  CsvDatasetOptions options{.takes = [](int64_t row) { return row != 1; }};
  const CsvDataset train = Open(text, options);
  EXPECT_THAT(train.encoding().features[0].categories, ElementsAre("blue", "red"));
  options.takes = [](int64_t row) { return row == 1; };
  options.encoding = &train.encoding();
  const Error error = ErrorOf(text, options);
  EXPECT_EQ(error.where, scratch_.Path("table.csv") + ":3");
  EXPECT_THAT(error.what, HasSubstr("is \"black\", which no row of the training data has"));
}

TEST_F(Csv, TreatsMissingFieldsAsAsked) {
  const std::string text = "x,y,kind\n1,,a\nNA,2,b\n3,4,?\n5,6,a\n";
  EXPECT_EQ(
      ErrorOf(text).what,
      "Column \"y\" has no value; data.on_missing \"skip\" leaves such rows out, \"mean\" puts "
      "the column's mean there.");
  const CsvDataset skipped = Open(text, {.missing = OnMissing::kSkip});
  EXPECT_THAT(Inputs(skipped), ElementsAre(5, 6));
  EXPECT_THAT(skipped.Notes(), ElementsAre("3 rows skipped that have a missing field"));
  const CsvDataset filled = Open(text, {.missing = OnMissing::kMean});
  EXPECT_THAT(Inputs(filled), ElementsAre(1, 4, 3, 2, 5, 6));
}

TEST_F(Csv, EqualsScikitLearnsOneHotEncoderAndStandardScaler) {
  const nlohmann::json golden = golden::Read("table.json");
  for (const nlohmann::json& golden_case : golden.at("cases")) {
    CsvDatasetOptions options{.target = "label",
                              .categorical = golden.at("categorical"),
                              .standardize = golden_case.at("standardize")};
    const CsvDataset train = Open(golden.at("train"), options);
    options.encoding = &train.encoding();
    const CsvDataset validation = Open(golden.at("validation"), options);
    const auto expect_equal = [](const CsvDataset& data, const nlohmann::json& lists) {
      const at::Tensor expected = golden::FloatTensor(lists);
      const at::Tensor inputs = AllInputs(data);
      ASSERT_EQ(inputs.sizes(), expected.sizes());
      EXPECT_TRUE(at::allclose(inputs, expected, 1e-6, 1e-6));
    };
    expect_equal(train, golden_case.at("train"));
    expect_equal(validation, golden_case.at("validation"));
  }
}

TEST_F(Csv, MakesCategoriesOfColumnsWithoutNumbers) {
  const CsvDataset data = Open("x,colour,y,kind\n1,red,5,a\n2,blue,6,b\n3,red,7,a\n");
  EXPECT_THAT(Inputs(data), ElementsAre(1, 0, 1, 5, 2, 1, 0, 6, 3, 0, 1, 7));
  EXPECT_THAT(data.shape().input, ElementsAre(4));
  EXPECT_THAT(data.Notes(),
              ElementsAre("column \"colour\" has 2 categories, an input each: blue, red"));
  // Only what rows in use have; numbers by size, where they are asked for.
  const CsvDataset chosen = Open("zone,kind\n10,a\n9,a\n10,b\n7,\"b\"c\n",
                                 {.categorical = {"zone"}, .skip_bad_rows = true});
  EXPECT_THAT(chosen.encoding().features[0].categories, ElementsAre("9", "10"));
  EXPECT_THAT(Inputs(chosen), ElementsAre(0, 1, 1, 0, 0, 1));
  EXPECT_THAT(ErrorOf("x,kind\n1,a\n", {.categorical = {"z"}}).what, HasSubstr("no column \"z\""));
}

TEST_F(Csv, GivesValidationTheTrainingDatasCategories) {
  const CsvDataset train = Open("c,x,kind\nred,1,a\nblue,3,b\n", {.standardize = true});
  CsvDatasetOptions options{.standardize = true, .encoding = &train.encoding()};
  EXPECT_THAT(Inputs(Open("x,kind,c\n5,a,red\n", options)), ElementsAre(0, 1, 3));
  const Error error = ErrorOf("x,kind,c\n5,a,red\n5,a,rad\n", options);
  EXPECT_EQ(error.where, scratch_.Path("table.csv") + ":3");
  EXPECT_EQ(error.what,
            "Column \"c\" is \"rad\", which no row of the training data has; \"red\" comes close.");
  options.skip_bad_rows = true;
  EXPECT_EQ(Open("x,kind,c\n5,a,red\n5,a,rad\n", options).size(), 1);
}

TEST_F(Csv, RefusesTooManyCategories) {
  const std::string text = "name,kind\nann,a\nbob,b\nann,a\ncid,a\n";
  EXPECT_EQ(Open(text, {.max_categories = 3}).shape().input[0], 3);
  const Error error = ErrorOf(text, {.max_categories = 2});
  EXPECT_EQ(error.title, "TOO MANY CATEGORIES");
  EXPECT_EQ(error.where, scratch_.Path("table.csv"));
  EXPECT_THAT(error.what, HasSubstr("Column \"name\" has more than 2 different values (\"ann\", "));
  // All of them at once, and what is left.
  const Error both = ErrorOf("n,x,t,kind\na,1,u,k\nb,2,v,k\nc,3,w,k\n", {.max_categories = 2});
  EXPECT_THAT(both.what, AllOf(HasSubstr("Column \"n\" has"), HasSubstr("Column \"t\" has")));
  EXPECT_THAT(both.hint, HasSubstr("\"feature_columns\": [\"x\"]"));
}

TEST_F(Csv, TreatsMissingCategoriesAsMissingNumbers) {
  const std::string text = "c,kind\nred,a\n,b\nred,a\nblue,b\nblue,b\n";
  EXPECT_EQ(ErrorOf(text).where, scratch_.Path("table.csv") + ":3");
  EXPECT_THAT(Inputs(Open(text, {.missing = OnMissing::kSkip})),
              ElementsAre(0, 1, 0, 1, 1, 0, 1, 0));
  EXPECT_THAT(Inputs(Open(text, {.missing = OnMissing::kMean})),
              ElementsAre(0, 1, .5, .5, 0, 1, 1, 0, 1, 0));
}

TEST_F(Csv, SaysWhichInputIsWhat) {
  const CsvDataset data = Open("x,c,kind\n1,red,n\n3,b,y\n", {.standardize = true});
  EXPECT_EQ(nlohmann::json::parse(data.ModelFiles().at("data.json")), nlohmann::json::parse(R"({
    "format": "csv",
    "inputs": [{"column": "x", "mean": 2.0, "deviation": 1.0},
               {"column": "c", "categories": ["b", "red"]}],
    "target": {"column": "kind", "labels": ["n", "y"]}})"));
}

// The mean of 30 times 0.1 is not 0.1, and the deviation from it would be 4e-17.
TEST_F(Csv, DoesNotDivideAConstantColumnByItsRounding) {
  std::string text = "x,k,y\n";
  for (int row = 0; row < 30; ++row) text += std::to_string(row) + ",0.1,0.1\n";
  const CsvDataset data = Open(
      text,
      {.target = "y", .target_is_class = false, .standardize = true, .standardize_target = true});
  const auto json = nlohmann::json::parse(data.ModelFiles().at("data.json"));
  EXPECT_EQ(json["inputs"][1]["deviation"], 1.0);
  EXPECT_EQ(json["target"].value("deviation", 1.0), 1.0);
}

TEST_F(Csv, NamesTheDelimiterThatTheFileHas) {
  EXPECT_EQ(ErrorOf("x;kind\n1;a\n").hint,
            "Its fields are separated by another character: set data.delimiter to \";\".");
  EXPECT_THAT(ErrorOf("x\tkind\n1\ta\n").hint, HasSubstr("data.delimiter to \"\\t\""));
  EXPECT_EQ(ErrorOf("x\n1\n").hint, "The first line must name the columns.");
}

TEST_F(Csv, RefusesWhatIsNoTextThatItCanRead) {
  using std::string_literals::operator""s;
  for (const std::string& text : {"\xff\xfex\0,\0"s, "\xfe\xff\0x\0,"s, "x\0,\0k\0\n\0"s}) {
    EXPECT_THAT(ErrorOf(text).what, HasSubstr("cannot be read: it is text in UTF-16"));
  }
  EXPECT_THAT(ErrorOf("PK\3\4\0\0"s).what, HasSubstr("cannot be read: it is no text"));
}

TEST_F(Csv, ShowsLongAndOddFieldsShortened) {
  const std::string text = "x,kind\n1,a\n\x1b[2J" + std::string(5000, 'r') + ",a\n";
  EXPECT_THAT(ErrorOf(text).what,
              AllOf(HasSubstr("is \"?[2Jrrr"), HasSubstr("rrr...\"; a number")));
  EXPECT_LT(ErrorOf(text).what.size(), 300U);
}

TEST_F(Csv, ReadsNamesOfColumnsAsItReadsFields) {
  const CsvDataset data = Open(" x , kind\n1, a\n2 ,b\n");
  EXPECT_THAT(Inputs(data), ElementsAre(1, 2));
  EXPECT_THAT(data.shape().labels, ElementsAre("a", "b"));
  EXPECT_THAT(
      ErrorOf("x,y,x,kind\n1,2,3,a\n").what,
      HasSubstr("Two columns of \"" + scratch_.Path("table.csv") + "\" have the name \"x\"."));
  EXPECT_THAT(Open(",x,kind\n0,7,a\n1,8,b\n").Notes(),
              ElementsAre("the column without a name is taken as an input; data.feature_columns "
                          "leaves it out"));
}

TEST_F(Csv, SaysThatClassesLookLikeNumbers) {
  const auto notes = [&](const std::string& rows) { return Open("x,kind\n" + rows).Notes(); };
  EXPECT_THAT(notes("1,0\n2,1\n3,5\n"), IsEmpty());
  EXPECT_THAT(notes("1,a\n2,1.5\n"), IsEmpty());
  EXPECT_THAT(notes("1,0.5\n2,1\n"),
              ElementsAre("column \"kind\" has 2 different numbers, each taken as a class of its "
                          "own; data.target_type \"number\" predicts them as numbers"));
  std::string many;
  for (int i = 0; i < 101; ++i) many += "1," + std::to_string(i) + "\n";
  EXPECT_THAT(notes(many), ElementsAre(HasSubstr("has 101 different numbers")));
}

TEST_F(Csv, NamesTheRowAndColumnAtFault) {
  const Error error = ErrorOf("x,kind\n\"1\n\",a\n2,b\n", {.skip_bad_rows = false});
  EXPECT_EQ(error.where, scratch_.Path("table.csv") + ":2");
  EXPECT_EQ(ErrorOf("x,kind\n1,a\nred,b\n").what,
            "Column \"x\" is \"red\"; a number was expected. data.categorical_columns takes the "
            "values of a column as names.");
  EXPECT_EQ(ErrorOf("x,kind\n1,a\nred,b\n").where, scratch_.Path("table.csv") + ":3");
  EXPECT_EQ(ErrorOf("x,kind\n1,a,2\n").what, "The row has 3 fields; the header has 2.");
  EXPECT_THAT(ErrorOf("x,kind\ninf,a\n").what,
              HasSubstr("Column \"x\" is \"inf\"; a number was expected."));
  EXPECT_THAT(ErrorOf("x,kind\n1e39,a\n").what,
              HasSubstr("Column \"x\" is \"1e39\"; a number of float32 was expected."));
  EXPECT_THAT(ErrorOf("x,knd\n1,a\n").what,
              HasSubstr("has no column \"kind\". Its columns are \"x\", \"knd\"."));
  EXPECT_EQ(ErrorOf("x,knd\n1,a\n").hint, "Did you mean \"knd\"?");
  EXPECT_EQ(ErrorOf("x,kind\n").what, "The data files have no row with features.");
  EXPECT_EQ(ErrorOf("").what, "The data files have no row with features.");
  const CsvDataset skipped = Open("x,kind\n1,a\nred,b\n\"2,c\n", {.skip_bad_rows = true});
  EXPECT_EQ(skipped.size(), 1);
  EXPECT_THAT(skipped.Notes(), ElementsAre(HasSubstr("2 rows skipped that cannot be read")));
}

}  // namespace
}  // namespace ddprun::trainer
