#include "trainer/job/early_stopping.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/golden/golden_file.h"

namespace ddprun::trainer {
namespace {

TEST(EarlyStopping, EndsAfterTheEvaluationOfTransformers) {
  const nlohmann::json cases = golden::Read("early_stopping.json").at("cases");
  ASSERT_GE(cases.size(), 200U);
  for (const nlohmann::json& one : cases) {
    EvaluationConfig config;
    config.early_stopping_patience = one.at("patience").get<int64_t>();
    config.early_stopping_threshold = one.at("threshold").get<double>();
    EarlyStopping stopping(config, one.at("greater_is_better").get<bool>());
    int64_t end = 0;
    int64_t number = 0;
    for (const nlohmann::json& value : one.at("values")) {
      stopping.Note(std::strtod(value.get<std::string>().c_str(), nullptr));
      ++number;
      if (end == 0 && stopping.is_due()) end = number;
    }
    EXPECT_EQ(end, one.at("end").get<int64_t>()) << one;
  }
}

TEST(EarlyStopping, IsOffByDefault) {
  EarlyStopping stopping(EvaluationConfig(), /*higher_is_better=*/false);
  for (int i = 0; i < 100; ++i) stopping.Note(i);
  EXPECT_FALSE(stopping.is_due());
}

}  // namespace
}  // namespace ddprun::trainer
