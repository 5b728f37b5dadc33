#include "trainer/text/vocabulary.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ddprun::trainer {

Vocabulary::Vocabulary(std::vector<std::pair<std::string, int32_t>> tokens,
                       std::vector<AddedToken> added)
    : added_(std::move(added)) {
  int64_t size = 0;
  for (const auto& [text, id] : tokens) size = std::max<int64_t>(size, int64_t{id} + 1);
  for (const AddedToken& token : added_) size = std::max<int64_t>(size, int64_t{token.id} + 1);
  by_id_.resize(size);
  for (auto& [text, id] : tokens) {
    DDPRUN_CHECK(id >= 0);
    by_id_[id].text = std::move(text);
  }
  for (const AddedToken& token : added_) {
    by_id_[token.id] = {.text = token.content, .special = token.special};
  }
  by_text_.reserve(by_id_.size());
  for (int32_t id = 0; id < size; ++id) {
    if (!by_id_[id].text.empty()) by_text_.insert_or_assign(by_id_[id].text, id);
  }
}

int32_t Vocabulary::Find(std::string_view token) const {
  const auto found = by_text_.find(token);
  return found == by_text_.end() ? -1 : found->second;
}

std::string_view Vocabulary::Text(int64_t id) const {
  return id >= 0 && id < size() ? std::string_view(by_id_[id].text) : std::string_view();
}

bool Vocabulary::IsSpecial(int64_t id) const {
  return id >= 0 && id < size() && by_id_[id].special;
}

}  // namespace ddprun::trainer
