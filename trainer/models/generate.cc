#include "trainer/models/generate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <vector>

namespace ddprun::trainer {

namespace {

// Returns the last `length` tokens [1, L], on the model's device.
at::Tensor LastTokens(const std::vector<int64_t>& tokens, int64_t length, at::Device device) {
  const auto count = std::min(static_cast<int64_t>(tokens.size()), length);
  at::Tensor last = at::empty({1, count}, at::kLong);
  std::copy(tokens.end() - count, tokens.end(), last.mutable_data_ptr<int64_t>());
  return last.to(device);
}

// Returns the number of first probabilities, of [k] in descending order, whose sum reaches top_p.
int64_t NucleusSize(const at::Tensor& chances, double top_p) {
  if (top_p >= 1) return chances.size(0);
  const at::Tensor before = chances.cumsum(0) - chances;  // sum of the likelier ones
  return std::max<int64_t>(1, (before < top_p).sum().item<int64_t>());
}

// Draws a token. `scores` [V] are on the CPU.
int64_t Draw(const at::Tensor& scores, const SamplingOptions& options, at::Generator& generator) {
  if (options.temperature <= 0) return scores.argmax().item<int64_t>();
  const int64_t choices =
      options.top_k > 0 ? std::min(options.top_k, scores.size(0)) : scores.size(0);
  const auto [best, index] = at::topk(scores, choices);
  const at::Tensor chances = at::softmax(best.to(at::kFloat) / options.temperature, 0);
  const at::Tensor kept = chances.narrow(0, 0, NucleusSize(chances, options.top_p));
  return index[at::multinomial(kept, 1, false, generator).item<int64_t>()].item<int64_t>();
}

}  // namespace

std::vector<int64_t> GenerateTokens(LanguageModel& model,
                                    std::span<const int64_t> prompt,
                                    int64_t count,
                                    const SamplingOptions& options) {
  const at::NoGradGuard no_grad;
  const auto back_to_mode =
      c10::make_scope_exit([&, training = model.is_training()] { model.train(training); });
  model.eval();
  const at::Device device = model.parameters().front().device();
  at::Generator generator = at::detail::createCPUGenerator(options.seed);
  // A model's vocabulary may be larger than the tokenizer's, for padding.
  const int64_t vocabulary = options.vocab_size > 0
                                 ? std::min(options.vocab_size, model.vocab_size())
                                 : model.vocab_size();
  std::vector<int64_t> tokens(prompt.begin(), prompt.end());
  KeyValueCache cache;
  for (int64_t i = 0; i < count; ++i) {
    auto fresh = static_cast<int64_t>(tokens.size()) - cache.length();
    if (static_cast<int64_t>(tokens.size()) > model.context_length()) {
      // Drops the cache, because the visible tokens move to other positions.
      cache = {};
      fresh = model.context_length();
    }
    const at::Tensor scores =
        model.NextScores(LastTokens(tokens, fresh, device), cache).select(0, 0);
    const int64_t token = Draw(scores.narrow(0, 0, vocabulary).cpu(), options, generator);
    if (std::ranges::find(options.stop_tokens, token) != options.stop_tokens.end()) break;
    tokens.push_back(token);
    if (options.ends && options.ends(std::span(tokens).subspan(prompt.size()))) break;
  }
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<int64_t>(prompt.size()));
  return tokens;
}

}  // namespace ddprun::trainer
