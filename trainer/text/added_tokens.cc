#include "trainer/text/added_tokens.h"

#include "trainer/text/unicode.h"

namespace ddprun::trainer {

void AddedTokenFinder::Add(const AddedToken& token) {
  if (token.content.empty()) return;
  trie_.Insert(token.content, static_cast<int32_t>(tokens_.size()));
  begins_token_[static_cast<uint8_t>(token.content[0])] = true;
  tokens_.push_back(token);
}

AddedTokenFinder::Found AddedTokenFinder::FindFrom(std::string_view text,
                                                   size_t at,
                                                   size_t taken) const {
  for (; at < text.size(); ++at) {
    if (!begins_token_[static_cast<uint8_t>(text[at])]) continue;
    const ByteTrie::Match match = trie_.Longest(text.substr(at));
    if (match.length == 0) continue;
    Found found{.token = &tokens_[match.value], .begin = at, .end = at + match.length};
    found.search_on = found.end;
    if (found.token->left_strip) found.begin = StripLeft(text, taken, found.begin, IsWhiteSpace);
    if (found.token->right_strip) found.end = StripRight(text, found.end, IsWhiteSpace);
    return found;
  }
  return {};
}

}  // namespace ddprun::trainer
