#include "trainer/config/checker.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "trainer/config/foreign_names.h"

namespace ddprun::trainer {

void Checker::Missing(std::string_view path, std::string_view needed_for) {
  const Key& key = GetKey(path);
  // Sizes have 0 in their range only so that a resolved config can hold every key.
  const bool zero_is_absent = key.range.min == 0;
  problems_->Add(entries.ErrorAbout(
      path, {.title = "MISSING KEY",
             .page = "missing-key",
             .found = std::string(path) + " is missing; " + std::string(needed_for) + " needs it:",
             .expected = zero_is_absent ? "" : "Accepted: " + AcceptedText(key) + ".",
             .hint = std::string(key.meaning)}));
}

void Checker::Conflict(std::string_view path, std::string found, std::string hint) {
  problems_->Add(entries.ErrorAbout(path, {.title = "KEYS THAT DO NOT FIT",
                                           .page = "keys-that-do-not-fit",
                                           .found = std::move(found),
                                           .hint = std::move(hint)}));
}

void Checker::UnknownChoice(std::string_view path,
                            const std::string& word,
                            const std::string& what,
                            const std::string& accepted,
                            std::string hint) {
  problems_->Add(entries.ErrorAbout(path, {.title = "UNKNOWN CHOICE",
                                           .page = "unknown-choice",
                                           .found = "\"" + word + "\" is no " + what + ":",
                                           .expected = "Accepted: " + accepted + ".",
                                           .hint = std::move(hint)}));
}

void Checker::CheckWord(std::string_view path,
                        const std::string& word,
                        std::span<const std::string_view> words,
                        const std::string& what) {
  if (std::ranges::find(words, word) != words.end()) return;
  UnknownChoice(path, word, what, FormatList(words, ", ", "\""), ChoiceHint(path, word, words));
}

}  // namespace ddprun::trainer
