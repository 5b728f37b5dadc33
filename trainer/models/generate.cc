#include "trainer/models/generate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include <algorithm>

namespace ddprun::trainer {

namespace {

constexpr int64_t kByteValues = 256;

class EvaluationMode {
 public:
  explicit EvaluationMode(LanguageModel& model) : model_(model), training_(model.is_training()) {
    model_.eval();
  }
  ~EvaluationMode() { model_.train(training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  LanguageModel& model_;
  const bool training_;
};

// The last `length` bytes as token numbers [1, L], on the model's device.
at::Tensor LastTokens(const std::string& text, int64_t length, at::Device device) {
  const auto count = std::min(static_cast<int64_t>(text.size()), length);
  at::Tensor tokens = at::empty({1, count}, at::kLong);
  std::transform(text.end() - count, text.end(), tokens.mutable_data_ptr<int64_t>(),
                 [](char c) { return static_cast<uint8_t>(c); });
  return tokens.to(device);
}

// `scores` [V] on the CPU.
int64_t Draw(const at::Tensor& scores, const GenerateOptions& options, at::Generator& generator) {
  if (options.temperature <= 0) return scores.argmax().item<int64_t>();
  const int64_t choices =
      options.top_k > 0 ? std::min(options.top_k, scores.size(0)) : scores.size(0);
  const auto [best, index] = at::topk(scores, choices);
  const at::Tensor chances = at::softmax(best / options.temperature, 0);
  return index[at::multinomial(chances, 1, false, generator).item<int64_t>()].item<int64_t>();
}

}  // namespace

std::string Generate(LanguageModel& model, const GenerateOptions& options) {
  const at::NoGradGuard no_grad;
  const EvaluationMode evaluation(model);
  const at::Device device = model.parameters().front().device();
  at::Generator generator = at::detail::createCPUGenerator(options.seed);
  std::string text = options.prompt.empty() ? "\n" : options.prompt;
  const size_t start = text.size();
  // A vocabulary may be padded beyond the bytes.
  const int64_t values = std::min(kByteValues, model.vocab_size());
  for (int64_t i = 0; i < options.length; ++i) {
    const at::Tensor logits = model.Logits(LastTokens(text, model.context_length(), device));
    const at::Tensor scores = logits.select(0, 0).select(0, -1).narrow(0, 0, values);
    text.push_back(static_cast<char>(Draw(scores.cpu(), options, generator)));
  }
  return text.substr(start);
}

}  // namespace ddprun::trainer
