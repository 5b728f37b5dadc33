#include "trainer/text/encode_pair.h"

#include <algorithm>

#include "base/check.h"
#include "base/failure.h"

namespace ddprun::trainer {

namespace {

void RequireClassifierTokens(const SpecialIds& special) {
  if (special.cls >= 0 && special.sep >= 0) return;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "NO [CLS] OR [SEP]",
                      .what = "The tokenizer has no token that begins a text ([CLS]) or ends one "
                              "([SEP]), which a classifier's input needs.",
                      .hint = "Name the folder of a BERT tokenizer.",
                      .page = "no-classifier-tokens"});
}

}  // namespace

std::pair<int64_t, int64_t> TruncateLongestFirst(int64_t first, int64_t second, int64_t limit) {
  if (first + second <= limit) return {first, second};
  const bool first_is_longer = first > second;
  int64_t shorter = std::min(first, second);
  int64_t longer = limit - shorter;
  if (longer < shorter) {
    shorter = limit / 2;
    longer = limit - shorter;
  }
  return first_is_longer ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

EncodedPair EncodePair(const Tokenizer& tokenizer,
                       std::string_view first,
                       std::optional<std::string_view> second,
                       int64_t max_length) {
  const SpecialIds& special = tokenizer.special();
  RequireClassifierTokens(special);
  DDPRUN_CHECK(max_length >= (second ? 3 : 2));
  EncodedPair pair;
  pair.ids.push_back(special.cls);
  tokenizer.Encode(first, pair.ids);
  std::vector<int32_t> second_ids;
  if (second) tokenizer.Encode(*second, second_ids);
  const auto [keep_first, keep_second] =
      TruncateLongestFirst(static_cast<int64_t>(pair.ids.size()) - 1,
                           static_cast<int64_t>(second_ids.size()), max_length - (second ? 3 : 2));
  pair.ids.resize(1 + keep_first);
  pair.ids.push_back(special.sep);
  pair.second_begin = static_cast<int64_t>(pair.ids.size());
  if (second) {
    pair.ids.insert(pair.ids.end(), second_ids.begin(), second_ids.begin() + keep_second);
    pair.ids.push_back(special.sep);
  }
  return pair;
}

}  // namespace ddprun::trainer
