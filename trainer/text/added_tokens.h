// Tokens that are found in text before all others: [SEP], <|endoftext|>, the user's own.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/text/byte_trie.h"

namespace ddprun::trainer {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool left_strip = false;   // includes the white space before it
  bool right_strip = false;  // includes the white space after it
  bool normalized = false;   // is searched in normalized text
  bool special = false;      // Decode() leaves it out
};

// Finds tokens from left to right, the longest at each place. Immutable once filled: any thread.
class AddedTokenFinder {
 public:
  void Add(const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  // Calls on_text(std::string_view) for each non-empty text between tokens, and on_token(id) for
  // each token, in order. REQUIRES: valid UTF-8.
  template <class OnText, class OnToken>
  void Split(std::string_view text, const OnText& on_text, const OnToken& on_token) const {
    size_t begin = 0;
    size_t at = 0;
    while (!tokens_.empty()) {
      Found found = FindFrom(text, at, begin);
      if (found.token == nullptr) break;
      if (found.begin > begin) on_text(text.substr(begin, found.begin - begin));
      on_token(found.token->id);
      begin = found.end;
      at = found.search_on;
    }
    if (begin < text.size()) on_text(text.substr(begin));
  }

 private:
  struct Found {
    const AddedToken* token = nullptr;
    size_t begin = 0;  // includes stripped white space
    size_t end = 0;
    size_t search_on = 0;
  };
  // Returns the next token at or after `at`. Text before `taken` belongs to earlier tokens.
  Found FindFrom(std::string_view text, size_t at, size_t taken) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;                            // values: indices of tokens_
  std::array<bool, 256> begins_token_ = {};  // by first byte
};

}  // namespace ddprun::trainer
