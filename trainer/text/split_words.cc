#include <array>
#include <cstdint>

#include "trainer/text/byte_pair.h"
#include "trainer/text/code_point_table.h"
#include "trainer/text/unicode.h"
#include "trainer/text/utf8.h"

namespace ddprun::trainer {

namespace {

using Kind = CharacterKind;

class Kinds {
 public:
  Kinds() : table_([](char32_t c) { return KindOf(c); }) {
    for (char32_t c = 0; c < ascii_.size(); ++c) ascii_[c] = table_[c];
  }

  // Returns the kind of the character at `at`, and moves `at` behind it.
  Kind Next(std::string_view text, size_t& at) const {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte < 0x80) return ascii_[text[at++]];
    return table_[NextCharacter(text, at)];
  }

 private:
  CodePointTable<Kind> table_;
  std::array<Kind, 128> ascii_;
};

const Kinds& AllKinds() {
  static const Kinds kinds;
  return kinds;
}

bool IsLineBreak(char c) {
  return c == '\n' || c == '\r';
}

// Returns where the run of characters of `kind` through `at` ends, after at most `most` of them.
size_t EndOfRun(std::string_view text, size_t at, Kind kind, size_t most = SIZE_MAX) {
  const Kinds& kinds = AllKinds();
  while (at < text.size() && most-- > 0) {
    size_t next = at;
    if (kinds.Next(text, next) != kind) break;
    at = next;
  }
  return at;
}

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// Returns the bytes of 's 't 're 've 'm 'll 'd at the beginning; 0: none. With `any_case`, U+017F
// (long s) is an s.
size_t Contraction(std::string_view text, bool any_case) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  if (any_case && text.substr(1).starts_with("\u017F")) return 3;
  const auto at = [&](size_t i) { return any_case ? Lower(text[i]) : text[i]; };
  const char first = at(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (text.size() < 3) return 0;
  const char second = at(2);
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  return first == 'l' && second == 'l' ? 3 : 0;
}

// \s+(?!\S)|\s+: all white space, but not its last character if a word follows.
size_t SpaceWord(std::string_view text, size_t end) {
  if (end == text.size()) return end;
  size_t last = end - 1;
  while ((static_cast<uint8_t>(text[last]) & 0xC0) == 0x80) --last;
  return last > 0 ? last : end;
}

size_t FirstGpt2Word(std::string_view text) {
  if (const size_t length = Contraction(text, false); length > 0) return length;
  const Kinds& kinds = AllKinds();
  size_t at = 0;
  Kind kind = kinds.Next(text, at);
  if (text[0] == ' ' && text.size() > 1) kind = kinds.Next(text, at);
  if (kind != Kind::kSpace) return EndOfRun(text, at, kind);
  return SpaceWord(text, EndOfRun(text, 0, Kind::kSpace));
}

// \s*[\r\n]+|\s+(?!\S)|\s+
size_t SpaceOrLines(std::string_view text) {
  const size_t end = EndOfRun(text, 0, Kind::kSpace);
  for (size_t at = end; at > 0; --at) {
    if (IsLineBreak(text[at - 1])) return at;
  }
  return SpaceWord(text, end);
}

size_t FirstLlamaWord(std::string_view text, size_t digits) {
  if (const size_t length = Contraction(text, true); length > 0) return length;
  const Kinds& kinds = AllKinds();
  size_t first_end = 0;
  const Kind first = kinds.Next(text, first_end);
  if (first == Kind::kLetter) return EndOfRun(text, first_end, Kind::kLetter);
  if (first == Kind::kNumber) return EndOfRun(text, first_end, Kind::kNumber, digits - 1);
  size_t second_end = first_end;
  Kind second = Kind::kSpace;
  if (first_end < text.size()) second = kinds.Next(text, second_end);
  if (second == Kind::kLetter && !IsLineBreak(text[0])) {
    return EndOfRun(text, second_end, Kind::kLetter);
  }
  if (first == Kind::kOther || (text[0] == ' ' && second == Kind::kOther)) {
    size_t end = EndOfRun(text, first_end, Kind::kOther);
    while (end < text.size() && IsLineBreak(text[end])) ++end;
    return end;
  }
  return SpaceOrLines(text);
}

}  // namespace

size_t FirstWord(std::string_view text, WordRule rule) {
  if (rule == WordRule::kGpt2) return FirstGpt2Word(text);
  return FirstLlamaWord(text, rule == WordRule::kLlama3 ? 3 : 1);
}

}  // namespace ddprun::trainer
