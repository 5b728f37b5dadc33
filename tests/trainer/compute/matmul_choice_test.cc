#include "trainer/compute/matmul_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace ddprun::trainer {
namespace {

EngineMeasurement Measured(MatmulEngine engine, double gflops, double error) {
  return {.engine = engine, .gflops = gflops, .error = error};
}

TEST(FastestExact, TakesTheFasterEngineOfEqualAccuracy) {
  EXPECT_EQ(FastestExact({Measured(MatmulEngine::kDefault, 75, 4e-7),
                          Measured(MatmulEngine::kOneDnn, 145, 8e-7)}),
            MatmulEngine::kOneDnn);
  EXPECT_EQ(FastestExact({Measured(MatmulEngine::kDefault, 145, 4e-7),
                          Measured(MatmulEngine::kOneDnn, 75, 8e-7)}),
            MatmulEngine::kDefault);
}

TEST(FastestExact, NeverTakesOneThatRoundsFactorsHoweverFast) {
  for (const double error : {4e-3, 5e-4, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(FastestExact({Measured(MatmulEngine::kDefault, 75, 4e-7),
                            Measured(MatmulEngine::kOneDnn, 1500, error)}),
              MatmulEngine::kDefault)
        << error;
  }
}

TEST(FastestExact, StaysWithTheDefaultWhenTheGainIsNoise) {
  EXPECT_EQ(FastestExact({Measured(MatmulEngine::kDefault, 100, 4e-7),
                          Measured(MatmulEngine::kOneDnn, 102, 4e-7)}),
            MatmulEngine::kDefault);
  EXPECT_EQ(FastestExact({}), MatmulEngine::kDefault);
}

TEST(MeasureEngines, FindsBothEnginesOfThisMachineAtFloat32Accuracy) {
  const auto measurements = MeasureEngines();
  ASSERT_EQ(measurements.size(), HasOneDnn() ? 2u : 1u);
  for (const EngineMeasurement& each : measurements) {
    EXPECT_GT(each.gflops, 0) << MatmulEngineName(each.engine);
    EXPECT_GT(each.error, 0) << MatmulEngineName(each.engine);
    EXPECT_LT(each.error, 1e-5) << MatmulEngineName(each.engine);
  }
}

class EngineFileTest : public testing::Test {
 protected:
  EngineFileTest() {
    std::string pattern = testing::TempDir() + "engineXXXXXX";
    folder_ = mkdtemp(pattern.data());
    file_ = folder_ + "/ddprun/matmul.json";
  }
  ~EngineFileTest() override { std::filesystem::remove_all(folder_); }

  void Fill(const std::string& text) const {
    std::filesystem::create_directories(folder_ + "/ddprun");
    std::ofstream(file_) << text;
  }

  std::string folder_;
  std::string file_;
};

TEST_F(EngineFileTest, RemembersWhatWasMeasured) {
  const EngineChoice first = ChooseEngine(file_);
  EXPECT_FALSE(first.remembered);
  const EngineChoice second = ChooseEngine(file_);
  EXPECT_TRUE(second.remembered);
  EXPECT_EQ(second.engine, first.engine);
  ASSERT_EQ(second.measurements.size(), first.measurements.size());
  EXPECT_EQ(second.Describe(), first.Describe());
}

TEST_F(EngineFileTest, IsBelievedOnlyAboutTimesNotAboutAccuracy) {
  Fill(R"({"engines": [{"name": "default", "gflops": 10, "error": 4e-7},
                       {"name": "onednn", "gflops": 99, "error": 4e-3}]})");
  EXPECT_EQ(ChooseEngine(file_).engine, MatmulEngine::kDefault);
}

TEST_F(EngineFileTest, IsWrittenAnewWhenItCannotBeRead) {
  for (const char* text : {"", "{", "[]", R"({"engines": 3})", R"({"engines": [{"name": "x"}]})",
                           R"({"engines": [{"name": "onednn", "gflops": "fast"}]})"}) {
    Fill(text);
    EXPECT_FALSE(ChooseEngine(file_).remembered) << text;
    EXPECT_TRUE(ChooseEngine(file_).remembered) << text;
  }
}

TEST_F(EngineFileTest, IsNotNeeded) {
  std::ofstream(folder_ + "/ddprun") << "a file where a folder should be";
  EXPECT_FALSE(ChooseEngine(file_).measurements.empty());
  EXPECT_FALSE(ChooseEngine("").measurements.empty());
}

TEST_F(EngineFileTest, LiesWhereTheEnvironmentSays) {
  EXPECT_THAT(
      EngineFile(Environment(Environment::Variables{{"XDG_CACHE_HOME", "/c"}, {"HOME", "/h"}})),
      testing::StartsWith("/c/ddprun/matmul-"));
  EXPECT_THAT(EngineFile(Environment(Environment::Variables{{"HOME", "/h"}})),
              testing::StartsWith("/h/.cache/ddprun/matmul-"));
  EXPECT_EQ(EngineFile(Environment()), "");
}

TEST(EngineChoice, SaysWhatWasTakenAndWhatElseThereWas) {
  const EngineChoice choice{.engine = MatmulEngine::kOneDnn,
                            .measurements = {Measured(MatmulEngine::kDefault, 98, 4e-7),
                                             Measured(MatmulEngine::kOneDnn, 110, 6e-7)}};
  EXPECT_EQ(choice.Describe(),
            "matrix products: onednn, 110 GFLOP/s, error 6e-07 (default: 98 GFLOP/s, error 4e-07)");
}

}  // namespace
}  // namespace ddprun::trainer
