#include "trainer/optim/loss_scaler.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/failure.h"
#include "tests/golden/golden_file.h"
#include "tests/trainer/load_state.h"

namespace ddprun::trainer {
namespace {

TEST(LossScaler, HasTheScalesOfGradScaler) {
  for (const nlohmann::json& golden : golden::Read("loss_scale.json", "cases")) {
    LossScaler scaler({golden.at("init_scale"), golden.at("growth_interval")});
    const auto overflows = golden.at("overflows").get<std::vector<bool>>();
    const auto scales = golden.at("scales").get<std::vector<double>>();
    for (size_t step = 0; step < overflows.size(); ++step) {
      scaler.Update(overflows[step]);
      EXPECT_EQ(scaler.scale(), scales[step]) << "step " << step;
    }
    EXPECT_EQ(static_cast<int64_t>(overflows.size()) - scaler.skipped(), golden.at("steps_done"));
  }
}

TEST(LossScaler, FailsWhereEveryScaleOverflows) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  LossScaler scaler({1.0 / 32768, 3});
  EXPECT_FALSE(scaler.Accepts(kInfinity, 1));  // the smallest scale
  EXPECT_TRUE(scaler.Accepts(1, 2));
  EXPECT_EQ(scaler.skipped(), 1);
  try {
    scaler.Accepts(kInfinity, 3);
    FAIL() << "the third step was accepted";
  } catch (const FailureOfAllRanks& failure) {
    EXPECT_EQ(failure.error().page, "no-loss-scale");
    EXPECT_EQ(failure.error().where, "step 3");
  }
}

TEST(LossScaler, GoesOnWithItsState) {
  LossScaler whole({1024, 3});
  LossScaler first({1024, 3});
  for (const bool overflow : {true, false, false}) {
    whole.Update(overflow);
    first.Update(overflow);
  }
  LossScaler second({65536, 3});
  LoadState(SaveState(NamesOf(first)), NamesOf(second));
  for (const bool overflow : {false, false, true}) {
    whole.Update(overflow);
    second.Update(overflow);
    EXPECT_EQ(second.scale(), whole.scale());
    EXPECT_EQ(second.skipped(), whole.skipped());
  }
}

}  // namespace
}  // namespace ddprun::trainer
