#include "trainer/optim/plateau.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/golden/golden_file.h"
#include "tests/trainer/load_state.h"

namespace ddprun::trainer {
namespace {

PlateauOptions OptionsOf(const nlohmann::json& one) {
  return {.on = true,
          .higher_is_better = one.at("mode") == "max",
          .factor = one.at("factor"),
          .patience = one.at("patience"),
          .threshold = one.at("threshold"),
          .cooldown = one.at("cooldown"),
          .smallest = one.at("min_lr")};
}

// Each evaluation in a fresh object that has the state of the one before, as after a restart.
TEST(Plateau, LowersTheRateWhereTorchDoes) {
  const nlohmann::json cases = golden::Read("lr_schedulers.json").at("reduce_lr_on_plateau");
  ASSERT_EQ(cases.size(), 200);
  for (const nlohmann::json& one : cases) {
    const auto values = one.at("values").get<std::vector<std::string>>();
    const auto rates = one.at("rates").get<std::vector<double>>();
    StateDict state;
    double before = 1;
    for (size_t i = 0; i < values.size(); ++i) {
      Plateau plateau(OptionsOf(one));
      const VisitState owner = [&](StateVisitor& visitor) { plateau.NameState(visitor); };
      if (i > 0) LoadState(state, owner);
      const bool falls = plateau.Note(std::strtod(values[i].c_str(), nullptr));
      // torch leaves out changes below 1e-8.
      EXPECT_NEAR(plateau.factor(), rates[i], 2e-8) << one.dump() << " evaluation " << i;
      EXPECT_EQ(falls, plateau.factor() < before);
      before = plateau.factor();
      state = CopyOf(SaveState(owner));
    }
  }
}

TEST(Plateau, StaysIfItIsOff) {
  Plateau plateau({.patience = 0});
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(plateau.Note(1));
  EXPECT_EQ(plateau.factor(), 1);
}

}  // namespace
}  // namespace ddprun::trainer
