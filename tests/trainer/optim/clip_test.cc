#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <ddprun/optimizer.h>
#include "tests/golden/golden_file.h"
#include "trainer/compute/norm.h"

namespace ddprun::trainer {
namespace {

// Clips by the tensors' own norm, which is returned.
double ClipToNorm(const std::vector<at::Tensor>& tensors, double max_norm) {
  const double norm = std::sqrt(SquaresOf(tensors));
  ClipTo(max_norm, norm, tensors);
  return norm;
}

TEST(ClipTo, EqualsPyTorch) {
  const nlohmann::json golden = golden::Read("optimizers.json");
  for (const nlohmann::json& golden_case : golden.at("clips")) {
    std::vector<at::Tensor> gradients;
    for (const nlohmann::json& gradient : golden.at("gradients").at(1)) {
      gradients.push_back(golden::FloatTensor(gradient));
    }
    const double norm = ClipToNorm(gradients, golden_case.at("max_norm"));
    EXPECT_NEAR(norm / golden_case.at("norm").get<double>(), 1, 1e-7);
    for (size_t i = 0; i < gradients.size(); ++i) {
      // PyTorch's norm is a float's rounding away from the right one.
      EXPECT_TRUE(gradients[i].allclose(golden::FloatTensor(golden_case.at("clipped").at(i)), 3e-7))
          << "max_norm " << golden_case.at("max_norm") << ", gradient " << i;
    }
  }
}

TEST(ClipTo, LeavesSmallGradientsAlone) {
  const std::vector<at::Tensor> gradients = {golden::FloatTensor({0.3, 0.4})};
  EXPECT_NEAR(ClipToNorm(gradients, 1.0), 0.5, 1e-7);
  EXPECT_TRUE(gradients[0].equal(golden::FloatTensor({0.3, 0.4})));
}

TEST(ClipTo, LetsAnInfiniteGradientShow) {
  const std::vector<at::Tensor> gradients = {golden::FloatTensor({0.3, 0.4})};
  gradients[0][1] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(ClipToNorm(gradients, 1.0)));
  EXPECT_TRUE(std::isnan(gradients[0][1].item<float>()));
}

}  // namespace
}  // namespace ddprun::trainer
