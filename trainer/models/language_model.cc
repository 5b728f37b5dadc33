#include "trainer/models/language_model.h"

namespace ddprun::trainer {

at::Tensor LanguageModel::NextScores(const at::Tensor& inputs, KeyValueCache& cache) {
  const at::Tensor scores = Logits(cache.ExtendTokens(inputs)).select(1, -1);
  cache.Advance(inputs.size(1));
  return scores;
}

}  // namespace ddprun::trainer
