// A tokenizer's tokens by id and by text, with those that were added to the model's own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trainer/text/added_tokens.h"

namespace ddprun::trainer {

// Immutable once filled: any thread. The sources of its strings need not live on.
class Vocabulary {
 public:
  // `tokens`: text -> id, as vocab.txt, vocab.json and tokenizer.json have them.
  // An added token takes its id from whatever has it.
  Vocabulary(std::vector<std::pair<std::string, int32_t>> tokens, std::vector<AddedToken> added);

  // -1: there is none.
  int32_t Find(std::string_view token) const;
  // Empty for an id that does not exist.
  std::string_view Text(int64_t id) const;
  bool IsSpecial(int64_t id) const;
  // The largest id + 1.
  int64_t size() const { return static_cast<int64_t>(by_id_.size()); }

  const std::vector<AddedToken>& added() const { return added_; }

 private:
  struct Token {
    std::string text;
    bool special = false;
  };
  std::vector<Token> by_id_;
  std::unordered_map<std::string_view, int32_t> by_text_;  // views of by_id_ and added_
  std::vector<AddedToken> added_;
};

}  // namespace ddprun::trainer
