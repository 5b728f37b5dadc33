#include "trainer/text/bert_normalizer.h"

#include <algorithm>
#include <vector>

#include "trainer/text/unicode.h"
#include "trainer/text/utf8.h"

namespace ddprun::trainer {

namespace {

using Role = BertNormalizer::Role;

constexpr char32_t kFirstSyllable = 0xAC00;
constexpr char32_t kLastSyllable = 0xD7A3;

uint32_t PackCharacter(Role role, char32_t c, char32_t as) {
  return static_cast<uint32_t>(role) << 24 | (static_cast<uint32_t>(as - c) & 0xFFFFFF);
}

// Returns whether `c` is in a range in which no character changes, assigned or not. Most characters
// are, so that they need no single check.
bool IsPlain(char32_t c) {
  return (c >= 0x3400 && c <= 0x9FFF) || (c >= 0x20000 && c <= 0x2F7FF) ||
         (c >= 0x2FA20 && c <= 0xDFFFF);
}

// Decomposes, orders combining characters canonically, and removes accents. An accent never blocks
// the order of others, so it is not kept even for ordering.
class AccentStripper {
 public:
  explicit AccentStripper(std::u32string& to) : to_(to) {}

  void Add(char32_t c) {
    parts_.clear();
    AppendDecomposition(c, parts_);
    for (const char32_t part : parts_) AddPart(part);
  }

  void Flush() {
    std::stable_sort(waiting_.begin(), waiting_.end(),
                     [](char32_t a, char32_t b) { return CombiningClass(a) < CombiningClass(b); });
    to_.append(waiting_);
    waiting_.clear();
  }

 private:
  void AddPart(char32_t part) {
    const bool starter = CombiningClass(part) == 0;
    if (starter) Flush();
    if (IsAccent(part)) return;
    (starter ? to_ : waiting_).push_back(part);
  }

  std::u32string& to_;
  std::u32string parts_;
  std::u32string waiting_;
};

void CleanAndSpace(const BertNormalizerOptions& options, char32_t c, std::u32string& to) {
  if (options.clean_text && (c == 0 || IsBertControl(c))) return;
  if (options.clean_text && IsWhiteSpace(c)) c = ' ';
  if (options.handle_chinese_chars && IsBertChinese(c)) {
    to.append({' ', c, ' '});
  } else {
    to.push_back(c);
  }
}

void StripAccents(std::u32string& text) {
  std::u32string stripped;
  AccentStripper stripper(stripped);
  for (const char32_t c : text) stripper.Add(c);
  stripper.Flush();
  text.swap(stripped);
}

void LowerCase(std::u32string& text) {
  std::u32string lower;
  for (const char32_t c : text) AppendLowerCase(c, lower);
  text.swap(lower);
}

void StripAndLower(const BertNormalizerOptions& options, std::u32string& text) {
  if (options.strip_accents) StripAccents(text);
  if (options.lowercase) LowerCase(text);
}

}  // namespace

Role RoleOfNormalized(char32_t c) {
  if (IsWhiteSpace(c)) return Role::kSpace;
  return IsBertPunctuation(c) ? Role::kAlone : Role::kPart;
}

BertNormalizer::BertNormalizer(const BertNormalizerOptions& options)
    : options_(options), table_([this](char32_t c) { return Pack(c); }) {}

std::string BertNormalizer::Normalize(std::string_view text) const {
  std::u32string characters;
  for (size_t at = 0; at < text.size();) {
    CleanAndSpace(options_, NextCharacter(text, at), characters);
  }
  StripAndLower(options_, characters);
  std::string normalized;
  for (const char32_t c : characters) AppendCharacter(c, normalized);
  return normalized;
}

uint32_t BertNormalizer::Pack(char32_t c) const {
  if (options_.strip_accents && c >= kFirstSyllable && c <= kLastSyllable) {
    return PackCharacter(Role::kSyllable, c, c);
  }
  if (IsPlain(c)) {
    const bool alone = options_.handle_chinese_chars && IsBertChinese(c);
    return PackCharacter(alone ? Role::kAlone : Role::kPart, c, c);
  }
  std::u32string becomes;
  CleanAndSpace(options_, c, becomes);
  const bool ideograph = becomes.size() > 1;
  if (ideograph) becomes = becomes[1];
  if (becomes.empty()) return PackCharacter(Role::kNothing, c, c);
  StripAndLower(options_, becomes);
  if (becomes.empty()) return PackCharacter(Role::kNothing, c, c);
  const char32_t as = becomes.front();
  if (becomes.size() > 1 || (options_.strip_accents && CombiningClass(as) != 0)) {
    return PackCharacter(Role::kRare, c, c);
  }
  return PackCharacter(ideograph ? Role::kAlone : RoleOfNormalized(as), c, as);
}

}  // namespace ddprun::trainer
