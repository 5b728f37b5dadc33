// Metrics against scikit-learn (tests/golden/metrics.json), on one rank and on several.
#include "trainer/evaluation/metrics.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/failure.h"
#include "tests/golden/golden_file.h"
#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/config/slot.h"

namespace ddprun::trainer {
namespace {

using nlohmann::json;

const std::vector<Metric> kOfClasses = {
    Metric::kAccuracy, Metric::kPrecision, Metric::kRecall,         Metric::kF1,
    Metric::kF1Macro,  Metric::kMcc,       Metric::kConfusionMatrix};

at::Tensor Classes(const json& list) {
  return at::tensor(list.get<std::vector<int64_t>>(), at::kLong);
}

// Samples [begin, end) of a case; the scores of a prediction are highest at its class.
void AddPart(MetricSums& sums, const json& example, int64_t begin, int64_t end) {
  const at::Tensor targets = Classes(example.at("targets")).slice(0, begin, end);
  const at::Tensor scores =
      at::one_hot(Classes(example.at("predictions")), example.at("classes").get<int64_t>())
          .to(at::kFloat)
          .slice(0, begin, end);
  const Batch batch{
      .inputs = {}, .targets = targets, .samples = end - begin, .predictions = end - begin};
  sums.Add(0.5, scores, batch);
}

std::map<std::string, double> ValuesOf(const MetricSums& sums) {
  const NamedValues values = sums.Values();
  return {values.begin(), values.end()};
}

void ExpectValues(const MetricSums& sums, const json& example) {
  const auto values = ValuesOf(sums);
  for (const auto& [name, expected] : example.at("values").items()) {
    EXPECT_NEAR(values.at(name), expected.get<double>(), 1e-12) << name << " of " << example.dump();
  }
  EXPECT_EQ(values.count("confusion_matrix"), 0);  // it is no number
  const ConfusionMatrix confusion = sums.Confusion({});
  EXPECT_EQ(confusion.counts, example.at("confusion").get<std::vector<int64_t>>());
  EXPECT_EQ(confusion.labels.front(), "0");
  const std::vector<ClassScores> scores = ScoresByClass(confusion);
  const json& by_class = example.at("by_class");
  ASSERT_EQ(scores.size(), by_class[0].size());
  for (size_t i = 0; i < scores.size(); ++i) {
    EXPECT_NEAR(scores[i].precision, by_class[0][i].get<double>(), 1e-12);
    EXPECT_NEAR(scores[i].recall, by_class[1][i].get<double>(), 1e-12);
    EXPECT_NEAR(scores[i].f1, by_class[2][i].get<double>(), 1e-12);
    EXPECT_EQ(scores[i].samples, by_class[3][i].get<double>());
  }
}

TEST(MetricSums, OfOverAThousandClassesHaveNoConfusionMatrix) {
  for (const int64_t classes : {1000, 1001}) {
    MetricSums sums({Metric::kF1Macro, Metric::kConfusionMatrix});
    const Batch batch{
        .inputs = {}, .targets = at::tensor({999}, at::kLong), .samples = 1, .predictions = 1};
    at::Tensor scores = at::zeros({1, classes});
    scores.select(1, 999).fill_(1);
    sums.Add(1, scores, batch);
    sums.SumOverRanks(nullptr);
    EXPECT_EQ(sums.Confusion({}).size(), classes == 1000 ? 1000 : 0);
    EXPECT_EQ(ValuesOf(sums).at("f1_macro"), 1);
  }
}

TEST(MetricSums, LossIsTheMeanWithTheWeightsOfSamples) {
  MetricSums sums({});
  Batch batch{.inputs = {}, .targets = at::zeros({2}, at::kLong), .samples = 2, .predictions = 2};
  batch.weights = at::tensor({0.5F, 2.5F});
  batch.sum_of_weights = 3;
  sums.Add(4, {}, batch);
  batch.weights = at::tensor({0.5F, 0.5F});
  batch.sum_of_weights = 1;
  sums.Add(8, {}, batch);
  EXPECT_DOUBLE_EQ(sums.loss(), (4 * 3 + 8) / 4.0);
}

// Otherwise ranks would decide differently by the metric.
TEST(MetricSums, OfTheTaskAreKnownToARankWithoutSamples) {
  for (const int64_t classes : {2, 1}) {  // the outputs of one class do not fit the guess
    WithGroup(2, [&](const auto& group, int rank) {
      MetricSums sums({});
      Batch batch;
      batch.targets = at::zeros({3}, at::kLong);
      batch.samples = batch.predictions = 3;
      if (rank == 0) {
        EXPECT_TRUE(sums.NeedsOutputs(batch));
        sums.Add(0.5, at::zeros({3, classes}), batch);
      }
      sums.SumOverRanks(group.get());
      const std::map<std::string, double> expected = {{"accuracy", 1.0}};
      EXPECT_EQ(ValuesOf(sums), classes == 2 ? expected : decltype(expected)());
    });
  }
}

TEST(MetricSums, EqualScikitLearnInBatchesOfAnySize) {
  for (const json& example : golden::Read("metrics.json", "classes")) {
    const auto size = static_cast<int64_t>(example.at("targets").size());
    MetricSums sums(kOfClasses);
    for (int64_t begin = 0; begin < size; begin += 7) {
      AddPart(sums, example, begin, std::min<int64_t>(begin + 7, size));
    }
    EXPECT_EQ(sums.samples(), size);
    ExpectValues(sums, example);
  }
}

TEST(MetricSums, AreTheSameOverRanksOfWhichOneHasNoSample) {
  for (const json& example : golden::Read("metrics.json", "classes")) {
    const auto size = static_cast<int64_t>(example.at("targets").size());
    WithGroup(3, [&](const auto& group, int rank) {
      MetricSums sums(kOfClasses);
      // Rank 0 has one sample, rank 1 the others, rank 2 none.
      if (rank == 0) AddPart(sums, example, 0, 1);
      if (rank == 1) AddPart(sums, example, 1, size);
      sums.SumOverRanks(group.get());
      EXPECT_EQ(sums.samples(), size);
      EXPECT_DOUBLE_EQ(sums.loss(), 0.5);
      ExpectValues(sums, example);
    });
  }
}

TEST(MetricSums, LeaveOutTargetsThatDoNotCount) {
  MetricSums sums({Metric::kAccuracy, Metric::kF1Macro});
  const Batch batch{.inputs = {},
                    .targets = at::tensor({0, -100, 1, -100}, at::kLong).view({1, 4}),
                    .samples = 1,
                    .predictions = 2};
  const at::Tensor scores = at::tensor({2.0F, 1.0F, 2.0F, 1.0F, 2.0F, 1.0F, 2.0F, 1.0F});
  sums.Add(1.0, scores.view({1, 4, 2}), batch);
  EXPECT_DOUBLE_EQ(ValuesOf(sums).at("accuracy"), 0.5);
  EXPECT_NEAR(ValuesOf(sums).at("f1_macro"), (2.0 / 3 + 0) / 2, 1e-12);
}

TEST(MetricSums, OfNumbersEqualScikitLearn) {
  const json example = golden::Read("metrics.json").at("numbers");
  const at::Tensor targets = at::tensor(example.at("targets").get<std::vector<double>>());
  const at::Tensor guesses = at::tensor(example.at("predictions").get<std::vector<double>>());
  MetricSums sums({Metric::kMse, Metric::kMae});
  for (const auto& [begin, end] : {std::pair(0, 11), std::pair(11, 30)}) {
    const Batch batch{.inputs = {},
                      .targets = targets.slice(0, begin, end),
                      .samples = end - begin,
                      .predictions = end - begin};
    sums.Add(0, guesses.slice(0, begin, end).view({-1, 1}), batch);
  }
  EXPECT_NEAR(ValuesOf(sums).at("mse"), example.at("mse").get<double>(), 1e-12);
  EXPECT_NEAR(ValuesOf(sums).at("mae"), example.at("mae").get<double>(), 1e-12);
}

// Rank 0 of three has one sample, rank 1 the others, rank 2 none. Returns the values of all.
std::map<std::string, double> ValuesOverRanks(const std::vector<Metric>& metrics,
                                              const at::Tensor& outputs,
                                              const at::Tensor& targets,
                                              const c10::intrusive_ptr<HostProcessGroup>& group,
                                              int rank) {
  MetricSums sums(metrics);
  const int64_t begin = rank == 0 ? 0 : 1;
  const int64_t end = rank == 0 ? 1 : targets.size(0);
  if (rank < 2) {
    const Batch batch{.inputs = {},
                      .targets = targets.slice(0, begin, end),
                      .samples = end - begin,
                      .predictions = end - begin};
    EXPECT_TRUE(sums.NeedsOutputs(batch));
    sums.Add(0, outputs.slice(0, begin, end), batch);
  }
  sums.SumOverRanks(group.get());
  return ValuesOf(sums);
}

at::Tensor Rows(const json& rows) {
  std::vector<at::Tensor> tensors;
  for (const json& row : rows) tensors.push_back(at::tensor(row.get<std::vector<double>>()));
  return at::stack(tensors);
}

TEST(MetricSums, RocAucEqualsScikitLearnOverRanks) {
  for (const json& example : golden::Read("metrics.json", "scores")) {
    const at::Tensor targets = Classes(example.at("targets"));
    const at::Tensor scores = Rows(example.at("scores")).to(at::kFloat);
    WithGroup(3, [&](const auto& group, int rank) {
      const auto values = ValuesOverRanks({Metric::kRocAuc}, scores, targets, group, rank);
      EXPECT_NEAR(values.at("roc_auc"), example.at("roc_auc").get<double>(), 1e-12);
    });
  }
}

TEST(MetricSums, RocAucOfOneClassAloneIsNoNumber) {
  MetricSums sums({Metric::kRocAuc});
  const Batch batch{
      .inputs = {}, .targets = at::zeros({3}, at::kLong), .samples = 3, .predictions = 3};
  sums.Add(0, at::rand({3, 2}), batch);
  sums.SumOverRanks(nullptr);
  EXPECT_TRUE(std::isnan(ValuesOf(sums).at("roc_auc")));
}

TEST(MetricSums, RocAucOfOutputsThatAreNoNumbersIsNone) {
  MetricSums sums({Metric::kRocAuc});
  const Batch batch{.inputs = {},
                    .targets = at::arange(4, at::kLong).remainder(2),
                    .samples = 4,
                    .predictions = 4};
  at::Tensor outputs = at::rand({4, 2});
  outputs[1][0] = std::numeric_limits<double>::quiet_NaN();
  sums.Add(0, outputs, batch);
  sums.SumOverRanks(nullptr);
  EXPECT_TRUE(std::isnan(ValuesOf(sums).at("roc_auc")));
}

TEST(MetricSums, R2EqualsScikitLearnOverRanks) {
  for (const json& example : golden::Read("metrics.json", "rows")) {
    const at::Tensor targets = Rows(example.at("targets"));
    const at::Tensor guesses = Rows(example.at("predictions"));
    WithGroup(3, [&](const auto& group, int rank) {
      const auto values =
          ValuesOverRanks({Metric::kR2, Metric::kRmse}, guesses, targets, group, rank);
      EXPECT_NEAR(values.at("r2"), example.at("r2").get<double>(), 1e-9);
      EXPECT_NEAR(values.at("rmse"), example.at("rmse").get<double>(), 1e-12);
    });
  }
}

TEST(MetricSums, R2OfEqualTargetsIsOneOrZeroAsInScikitLearn) {
  const Batch batch{.inputs = {}, .targets = at::ones({3, 1}), .samples = 3, .predictions = 3};
  for (const double guess : {1.0, 2.0}) {
    MetricSums sums({Metric::kR2});
    sums.Add(0, at::full({3, 1}, guess), batch);
    EXPECT_EQ(ValuesOf(sums).at("r2"), guess == 1.0 ? 1.0 : 0.0);
  }
}

TEST(MetricSums, WeighLossesByPredictionsForThePerplexity) {
  MetricSums sums({});
  const Batch one{
      .inputs = {}, .targets = at::zeros({1, 3}, at::kLong), .samples = 1, .predictions = 3};
  const Batch other{
      .inputs = {}, .targets = at::zeros({2, 3}, at::kLong), .samples = 2, .predictions = 1};
  EXPECT_FALSE(sums.NeedsOutputs(one));  // tokens: the perplexity is made of the loss
  sums.Add(1.0, {}, one);
  sums.Add(3.0, {}, other);
  EXPECT_DOUBLE_EQ(sums.loss(), 1.5);
  EXPECT_DOUBLE_EQ(ValuesOf(sums).at("perplexity"), std::exp(1.5));
}

TEST(MetricSums, ChooseAccuracyForClassesAndNothingForNumbers) {
  MetricSums classes({});
  EXPECT_TRUE(classes.NeedsOutputs({.inputs = {}, .targets = at::zeros({4}, at::kLong)}));
  MetricSums numbers({});
  EXPECT_FALSE(numbers.NeedsOutputs({.inputs = {}, .targets = at::zeros({4, 1})}));
  EXPECT_TRUE(numbers.Values().empty());
}

// The share of outputs above 0, and a number that three sums go into.
class Own final : public OwnMetrics {
 public:
  std::vector<std::string> MetricNames() const override { return {"positive", "mae"}; }
  std::vector<MetricSum> SumMetrics(const at::Tensor& outputs, const Batch& batch) override {
    const auto count = static_cast<double>(batch.samples);
    return {{.sum = outputs.gt(0).sum().item<double>(), .count = count},
            {.sum = outputs.sum().item<double>(), .count = 1},
            {.sum = 100, .count = 0}};
  }
  std::vector<double> MetricValues(const std::vector<MetricSum>& totals) const override {
    return {totals[0].sum / totals[0].count,
            totals[1].sum + 1000 * totals[1].count + 0.1 * totals[2].sum};
  }
};

TEST(MetricSums, AddUpAModelsOwnOverBatchesAndRanks) {
  WithGroup(3, [&](const auto& group, int rank) {
    Own own;
    MetricSums sums({Metric::kMse, Metric::kMae}, &own);
    // Rank 0 has two batches, rank 1 one, rank 2 none.
    for (int i = 0; i < 2 - rank; ++i) {
      const Batch batch{.inputs = {}, .targets = at::zeros({2, 1}), .samples = 2, .predictions = 2};
      EXPECT_TRUE(sums.NeedsOutputs(batch));
      sums.Add(0, at::tensor({3.0F, i == 0 ? 1.0F : -1.0F}).view({2, 1}), batch);
    }
    sums.SumOverRanks(group.get());
    const auto values = ValuesOf(sums);
    EXPECT_EQ(values.size(), 3);
    EXPECT_DOUBLE_EQ(values.at("positive"), 5.0 / 6);
    EXPECT_DOUBLE_EQ(values.at("mae"), 10 + 3000 + 30);  // in place of the built-in one
    EXPECT_DOUBLE_EQ(values.at("mse"), 5);
  });
}

TEST(MetricSums, OfTheModelStandInForThatOfTheTask) {
  Own own;
  MetricSums sums({}, &own);
  const Batch batch{
      .inputs = {}, .targets = at::zeros({2}, at::kLong), .samples = 2, .predictions = 2};
  sums.Add(0, at::ones({2, 2}), batch);
  EXPECT_EQ(ValuesOf(sums).count("accuracy"), 0);
}

TEST(MetricSums, GuessNoAccuracyWhereOutputsAreNoScores) {
  const Batch batch{
      .inputs = {}, .targets = at::zeros({2}, at::kLong), .samples = 2, .predictions = 2};
  for (const at::Tensor& outputs : {at::ones({2}), at::ones({2, 1})}) {
    MetricSums sums({});
    EXPECT_TRUE(sums.NeedsOutputs(batch));
    sums.Add(0.25, outputs, batch);
    EXPECT_TRUE(sums.Values().empty());
    EXPECT_DOUBLE_EQ(sums.loss(), 0.25);
  }
}

TEST(MetricSums, RefuseAMetricOfClassesForNumbers) {
  MetricSums sums({Metric::kMcc});
  const Batch batch{.inputs = {}, .targets = at::zeros({4, 1}), .samples = 4, .predictions = 4};
  try {
    sums.Add(0, at::zeros({4, 1}), batch);
    FAIL() << "no Failure";
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.error().what, testing::HasSubstr("classes"));
  }
}

}  // namespace
}  // namespace ddprun::trainer
