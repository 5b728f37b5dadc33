#include "trainer/text/added_tokens.h"

#include "trainer/text/unicode.h"
#include "trainer/text/utf8.h"

namespace ddprun::trainer {

namespace {

// Returns where the white space at the end of text[limit, end) begins.
size_t StripLeft(std::string_view text, size_t limit, size_t end) {
  while (end > limit) {
    size_t begin = end - 1;
    while ((static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    size_t after = begin;
    if (!IsWhiteSpace(NextCharacter(text, after))) break;
    end = begin;
  }
  return end;
}

size_t StripRight(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t after = begin;
    if (!IsWhiteSpace(NextCharacter(text, after))) break;
    begin = after;
  }
  return begin;
}

}  // namespace

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
    if (found.token->left_strip) found.begin = StripLeft(text, taken, found.begin);
    if (found.token->right_strip) found.end = StripRight(text, found.end);
    return found;
  }
  return {};
}

}  // namespace ddprun::trainer
