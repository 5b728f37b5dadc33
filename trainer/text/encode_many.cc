#include "trainer/text/encode_many.h"

#include "base/cpus.h"

namespace ddprun::trainer {

namespace {

constexpr size_t kTextsAtOnce = 32;  // few enough that no thread is left with all the long ones

}  // namespace

std::vector<std::vector<int32_t>> EncodeMany(const Tokenizer& tokenizer,
                                             std::span<const std::string_view> texts,
                                             int threads) {
  std::vector<std::vector<int32_t>> ids(texts.size());
  RunInParts(threads, texts.size(), kTextsAtOnce, [&](size_t begin, size_t end) {
    std::vector<int32_t> scratch;
    for (size_t i = begin; i < end; ++i) {
      scratch.clear();
      tokenizer.Encode(texts[i], scratch);
      ids[i].assign(scratch.begin(), scratch.end());
    }
  });
  return ids;
}

}  // namespace ddprun::trainer
