// The input of a BERT classifier: [CLS] first [SEP], or [CLS] first [SEP] second [SEP].
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
  // Token types are 0 for the ids before this index (including the first [SEP]), and 1 from it on.
  int64_t second_begin = 0;
};

// Returns how many tokens to keep of texts with `first` and `second` tokens, so that together they
// have at most `limit`: the longer one is cut, or both to half. If `limit` is odd, the longer one
// gets one token more; of equals, the second. This is truncation="longest_first" of Hugging Face's
// fast tokenizers; their slow ones give this token to the first.
std::pair<int64_t, int64_t> TruncateLongestFirst(int64_t first, int64_t second, int64_t limit);

// Encodes a text or a pair into at most `max_length` ids, including special tokens. REQUIRES:
// max_length is at least the number of special tokens (2, with a second text 3). Throws Failure if
// the tokenizer has no [CLS] or [SEP].
EncodedPair EncodePair(const Tokenizer& tokenizer,
                       std::string_view first,
                       std::optional<std::string_view> second,
                       int64_t max_length);

}  // namespace ddprun::trainer
