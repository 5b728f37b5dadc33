// What a BERT classifier reads: [CLS] first [SEP], or [CLS] first [SEP] second [SEP].
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {

struct EncodedPair {
  std::vector<int32_t> ids;
  // Token types are 0 for the ids before this one (with the first [SEP]), 1 from it on.
  int64_t second_begin = 0;
};

// How many tokens of texts with `first` and `second` tokens are kept so that together they are at
// most `limit`: the longer one is cut, or both to half. Where `limit` is odd the longer gets the
// one token more; of equals the second. It is truncation="longest_first" of Hugging Face's fast
// tokenizers; their slow ones give that token to the first.
std::pair<int64_t, int64_t> TruncateLongestFirst(int64_t first, int64_t second, int64_t limit);

// At most `max_length` ids, special tokens included. REQUIRES: max_length is at least the number
// of special tokens (2, with a second text 3). Throws Failure: the tokenizer has no [CLS] or [SEP].
EncodedPair EncodePair(const Tokenizer& tokenizer,
                       std::string_view first,
                       std::optional<std::string_view> second,
                       int64_t max_length);

}  // namespace ddprun::trainer
