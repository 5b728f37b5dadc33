// Our reducer against c10d::Reducer of LibTorch, both over HostProcessGroup: the same gradients,
// bit for bit with two ranks.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/parallel/reducer.h"

namespace ddprun::trainer {
namespace {

// A model; `loss` uses its parameters in step `step` on rank `rank`.
struct Zoo {
  std::string name;
  std::vector<std::vector<int64_t>> shapes;
  std::function<at::Tensor(const std::vector<at::Tensor>&, int rank, int step)> loss;
  bool unused = false;
  at::ScalarType odd_type = at::kFloat;  // of every second parameter
};

at::Tensor Input(int rank, int step, int64_t width) {
  return Random({9, width}, static_cast<uint64_t>(1000 + rank * 100 + step));
}

std::vector<Zoo> Models() {
  const auto chain = [](const std::vector<at::Tensor>& p, int rank, int step) {
    at::Tensor x = Input(rank, step, 12);
    for (size_t i = 0; i + 1 < p.size(); i += 2) {
      x = at::tanh(at::matmul(x.to(p[i].dtype()), p[i]).to(at::kFloat) + p[i + 1].to(at::kFloat));
    }
    return x.pow(2).sum();
  };
  const std::vector<std::vector<int64_t>> layers = {{12, 40}, {40}, {40, 33}, {33}, {33, 5}, {5}};
  const auto shared = [](const std::vector<at::Tensor>& p, int rank, int step) {
    const at::Tensor x = at::tanh(at::matmul(Input(rank, step, 12), p[0]));
    return at::matmul(at::tanh(at::matmul(x, p[1])), p[1]).pow(2).mean() + p[0].sum();
  };
  const auto switching = [](const std::vector<at::Tensor>& p, int rank, int step) {
    const at::Tensor x = at::matmul(Input(rank, step, 12), p[0]);
    at::Tensor loss = x.pow(2).mean();
    if ((rank + step) % 2 == 0) loss = loss + at::matmul(x, p[1]).pow(2).mean();
    if (step == 1) loss = loss + at::matmul(x, p[2]).abs().mean();
    return loss;
  };
  return {
      {.name = "Chain", .shapes = layers, .loss = chain},
      {.name = "MixedTypes", .shapes = layers, .loss = chain, .odd_type = at::kDouble},
      {.name = "SharedParameter", .shapes = {{12, 30}, {30, 30}}, .loss = shared},
      {.name = "UnusedParameters",
       .shapes = {{12, 30}, {30, 8}, {30, 7}},
       .loss = switching,
       .unused = true},
  };
}

std::vector<at::Tensor> MakeParameters(const Zoo& model) {
  std::vector<at::Tensor> parameters;
  for (size_t i = 0; i < model.shapes.size(); ++i) {
    const at::ScalarType type = i % 2 == 1 ? model.odd_type : at::kFloat;
    parameters.push_back(Random(model.shapes[i], 50 + i).to(type).set_requires_grad(true));
  }
  return parameters;
}

using Gradients = std::vector<std::vector<at::Tensor>>;  // by step, by parameter

void Keep(const std::vector<at::Tensor>& parameters, Gradients& steps) {
  std::vector<at::Tensor>& gradients = steps.emplace_back();
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor& gradient = parameter.grad();
    gradients.push_back(gradient.defined() ? gradient.clone() : at::Tensor());
  }
}

constexpr int kSteps = 4;
constexpr int64_t kBucketBytes = 3000;

Gradients OfTorch(const Zoo& model, const c10::intrusive_ptr<HostProcessGroup>& group, int rank) {
  const std::vector<at::Tensor> parameters = MakeParameters(model);
  const auto process_group =
      c10::make_intrusive<c10d::ProcessGroup>(group->getRank(), group->getSize());
  process_group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::CUSTOM, group);
  const auto buckets = c10d::compute_bucket_assignment_by_size(
      parameters, {static_cast<size_t>(kBucketBytes)}, {}, {}, {});
  c10d::Reducer reducer(parameters, std::get<0>(buckets), process_group,
                        std::vector<bool>(parameters.size(), false), kBucketBytes, model.unused,
                        /*gradient_as_bucket_view=*/true, {}, kBucketBytes, false, false, {});
  Gradients steps;
  for (int step = 0; step < kSteps; ++step) {
    for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
    reducer.rebuild_buckets();
    const at::Tensor loss = model.loss(parameters, rank, step);
    reducer.prepare_for_backward(model.unused ? std::vector<at::Tensor>{loss}
                                              : std::vector<at::Tensor>{});
    loss.backward();
    Keep(parameters, steps);
  }
  return steps;
}

Gradients OfOurs(const Zoo& model, const c10::intrusive_ptr<HostProcessGroup>& group, int rank) {
  const std::vector<at::Tensor> parameters = MakeParameters(model);
  std::vector<NamedParameter> named;
  for (const at::Tensor& parameter : parameters) {
    named.push_back({"parameter" + std::to_string(named.size()), parameter});
  }
  Reducer reducer(named, group,
                  {.limits = {.first_bytes = kBucketBytes, .cap_bytes = kBucketBytes},
                   .find_unused_parameters = model.unused});
  Gradients steps;
  for (int step = 0; step < kSteps; ++step) {
    reducer.BeginStep();
    const at::Tensor loss = model.loss(parameters, rank, step);
    const std::vector<at::Tensor> outputs = {loss};
    reducer.PrepareBackward(true, outputs);
    loss.backward();
    Keep(parameters, steps);
  }
  return steps;
}

class AgainstTorch : public testing::TestWithParam<Zoo> {
 protected:
  void Compare(int size, bool bitwise) {
    const Zoo& model = GetParam();
    WithGroup(size, [&](const auto& group, int rank) {
      const Gradients theirs = OfTorch(model, group, rank);
      const Gradients ours = OfOurs(model, group, rank);
      for (int step = 0; step < kSteps; ++step) {
        for (size_t i = 0; i < model.shapes.size(); ++i) {
          const at::Tensor& a = ours[static_cast<size_t>(step)][i];
          const at::Tensor& b = theirs[static_cast<size_t>(step)][i];
          ASSERT_EQ(a.defined(), b.defined()) << "step " << step << " parameter " << i;
          if (!a.defined()) continue;
          ASSERT_TRUE(bitwise ? at::equal(a, b) : at::allclose(a, b, 1e-5, 1e-6))
              << "step " << step << " parameter " << i;
        }
      }
    });
  }
};

TEST_P(AgainstTorch, TwoRanksHaveTheSameGradientsBitForBit) {
  Compare(2, /*bitwise=*/true);
}

// c10d divides before it sums, we do after: the last bits differ where 3 is no power of two.
TEST_P(AgainstTorch, ThreeRanksHaveTheSameGradientsWithinRounding) {
  Compare(3, /*bitwise=*/false);
}

INSTANTIATE_TEST_SUITE_P(Models, AgainstTorch, testing::ValuesIn(Models()), [](const auto& tested) {
  return tested.param.name;
});

}  // namespace
}  // namespace ddprun::trainer
