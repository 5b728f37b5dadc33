// Rows with several texts, numbered by the attention mask, beside each text alone.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/models/small_models.h"
#include "trainer/models/layers.h"

namespace ddprun::trainer {
namespace {

// Lengths of the texts of each row; the second row has padding, the third one text.
const std::vector<std::vector<int64_t>> kRows = {{5, 3, 4}, {7, 1}, {12}};
constexpr int64_t kLength = 12;

int64_t Token(int64_t row, int64_t place) {
  return (7 * row + 3 * place * place + place) % 20;
}

Batch TextAlone(int64_t row, int64_t begin, int64_t length) {
  Batch batch{.inputs = at::zeros({1, length}, at::kLong),
              .targets = at::full({1, length}, -100, at::kLong),
              .samples = 1};
  for (int64_t i = 0; i < length; ++i) {
    batch.inputs[0][i] = Token(row, begin + i);
    if (i % 3 == 2) continue;
    batch.targets[0][i] = Token(row + 5, begin + i);
    ++batch.predictions;
  }
  return batch;
}

Batch Rows() {
  const auto count = std::ssize(kRows);
  Batch all{.inputs = at::zeros({count, kLength}, at::kLong),
            .targets = at::full({count, kLength}, -100, at::kLong),
            .attention_mask = at::zeros({count, kLength}, at::kLong),
            .samples = count};
  for (int64_t row = 0; row < count; ++row) {
    int64_t begin = 0;
    int64_t number = 0;
    for (const int64_t length : kRows[row]) {
      const Batch text = TextAlone(row, begin, length);
      all.inputs[row].narrow(0, begin, length).copy_(text.inputs[0]);
      all.targets[row].narrow(0, begin, length).copy_(text.targets[0]);
      all.attention_mask[row].narrow(0, begin, length).fill_(++number);
      all.predictions += text.predictions;
      begin += length;
    }
  }
  return all;
}

TEST(SeveralTexts, HavePlacesAndLengthsOfTheirOwn) {
  const CausalView view = CausalViewOf(Rows());
  EXPECT_FALSE(view.mask.defined());
  EXPECT_EQ(view.texts, (std::vector<int64_t>{5, 3, 4, 7, 1, 4, 12}));
  const std::vector<int64_t> first = {0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3};
  for (int64_t i = 0; i < kLength; ++i) {
    EXPECT_EQ(view.positions[0][i].item<int64_t>(), first[i]);
    EXPECT_EQ(view.positions[2][i].item<int64_t>(), i);
  }
}

TEST(SeveralTexts, LossOutputsAndGradientsAreThoseOfEachTextAlone) {
  for (const std::string type : {"gpt", "llama"}) {
    const auto model = MakeModel(SmallModels().at(type), {}, /*initialize=*/true, at::kCPU);
    const Batch all = Rows();
    const at::Tensor outputs = model->Outputs(all).detach();
    const at::Tensor loss = model->Loss(all) * all.predictions;
    loss.backward();
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : model->parameters()) {
      gradients.push_back(parameter.grad().clone());
    }
    model->zero_grad();
    double sum = 0;
    for (int64_t row = 0; row < std::ssize(kRows); ++row) {
      int64_t begin = 0;
      for (const int64_t length : kRows[row]) {
        const Batch text = TextAlone(row, begin, length);
        const at::Tensor found = outputs[row].narrow(0, begin, length);
        EXPECT_LT((found - model->Outputs(text)[0]).abs().max().item<double>(), 2e-5) << type;
        const at::Tensor alone = model->Loss(text) * text.predictions;
        alone.backward();
        sum += alone.item<double>();
        begin += length;
      }
    }
    EXPECT_NEAR(loss.item<double>(), sum, 1e-4) << type;
    size_t i = 0;
    for (const auto& item : model->named_parameters()) {
      EXPECT_LT((gradients[i++] - item.value().grad()).abs().max().item<double>(), 1e-4)
          << type << " " << item.key();
    }
  }
}

}  // namespace
}  // namespace ddprun::trainer
