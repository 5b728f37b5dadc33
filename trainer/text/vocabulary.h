// A tokenizer's tokens by id and by text, including tokens that were added to the model's own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trainer/text/added_tokens.h"

namespace ddprun::trainer {

// Immutable once filled: any thread. It owns its strings, so their sources need not stay alive.
class Vocabulary {
 public:
  // `tokens`: text -> id, as in vocab.txt, vocab.json and tokenizer.json. If an added token's id is
  // already in use, the added token replaces the other one.
  Vocabulary(std::vector<std::pair<std::string, int32_t>> tokens, std::vector<AddedToken> added);

  // Returns the id of a token, or -1.
  int32_t Find(std::string_view token) const;
  // Returns the text of an id; empty if the id does not exist.
  std::string_view Text(int64_t id) const;
  bool IsSpecial(int64_t id) const;
  // Returns the largest id + 1.
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
