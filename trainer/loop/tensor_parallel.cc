#include "trainer/loop/tensor_parallel.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "base/failure.h"

namespace ddprun::trainer {

namespace {

// What there must be a part of for every rank.
struct Sizes {
  int64_t heads = 0;  // equal parts of these; 0: there are none
  int64_t smallest = std::numeric_limits<int64_t>::max();  // of what is cut anywhere
  std::string names;                                       // of the keys that say so
};

Sizes SizesOf(const ModelOptions& model) {
  if (const auto* mlp = std::get_if<MlpOptions>(&model)) {
    Sizes sizes{.names = "model.layer_sizes"};
    for (size_t i = 1; i + 1 < mlp->sizes.size(); ++i) {
      sizes.smallest = std::min(sizes.smallest, mlp->sizes[i]);
    }
    return sizes;
  }
  const TransformerOptions* transformer = TransformerIn(model);
  if (transformer == nullptr) return {};
  Sizes sizes{.heads = transformer->num_attention_heads,
              .smallest = std::min(transformer->vocab_size, transformer->inner_size()),
              .names = "model.num_attention_heads"};
  const auto* llama = std::get_if<LlamaOptions>(&model);
  if (llama != nullptr && llama->num_key_value_heads > 0) {
    sizes.heads = std::gcd(sizes.heads, llama->num_key_value_heads);
    sizes.names += " and model.num_key_value_heads";
  }
  return sizes;
}

}  // namespace

void CheckTensorParallel(const Job& job, int64_t ranks) {
  const Sizes sizes = SizesOf(job.model);
  if (ranks == 1 || (sizes.heads % ranks == 0 && sizes.smallest >= ranks)) return;
  std::string fitting;
  for (int64_t i = 1; i <= std::max<int64_t>(sizes.heads, 1) && i <= sizes.smallest; ++i) {
    if (sizes.heads > 0 && sizes.heads % i == 0) {
      fitting += (fitting.empty() ? "" : ", ") + std::to_string(i);
    }
  }
  if (sizes.heads == 0) fitting = "at most " + std::to_string(sizes.smallest);
  throw Failure(Error{.code = Code::kUsage,
                      .title = "LAYERS CANNOT BE DIVIDED",
                      .where = job.config_path,
                      .what = "Each layer is to be shared out among " + std::to_string(ranks) +
                              " ranks, which is more than some layers have parts, or no divisor\n"
                              "of the number of heads (" +
                              sizes.names + ").",
                      .hint = "This model fits strategy.tensor_parallel_size " + fitting + ".",
                      .page = "uneven-parts"});
}

}  // namespace ddprun::trainer
