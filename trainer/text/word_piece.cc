#include "trainer/text/word_piece.h"

#include <utility>

#include "base/check.h"
#include "trainer/text/clean_up.h"
#include "trainer/text/utf8.h"

namespace ddprun::trainer {

namespace {

using Role = BertNormalizer::Role;

}  // namespace

// Collects a word's characters, and converts them to ids at the word's end.
class WordPiece::Words {
 public:
  Words(const WordPiece& tokenizer, std::vector<int32_t>& ids)
      : tokenizer_(tokenizer), cache_(WordCache::ForThread(tokenizer.cache_owner_)), ids_(ids) {}

  void Add(char32_t c) {
    if (++characters_ > tokenizer_.options_.max_word) return;
    if (c < 0x80) {
      word_.push_back(static_cast<char>(c));
    } else {
      AppendCharacter(c, word_);
    }
  }

  // Adds the parts of a Hangul syllable, which are numbered consecutively.
  void AddSyllable(char32_t c) {
    constexpr char32_t kVowels = 21;
    constexpr char32_t kFinals = 28;
    const char32_t index = c - 0xAC00;
    Add(0x1100 + index / (kVowels * kFinals));
    Add(0x1161 + index / kFinals % kVowels);
    if (index % kFinals != 0) Add(0x11A7 + index % kFinals);
  }

  void End() {
    if (characters_ == 0) return;
    if (characters_ > tokenizer_.options_.max_word) {
      ids_.push_back(tokenizer_.options_.special.unknown);
    } else if (!cache_.Find(word_, ids_)) {
      const size_t begin = ids_.size();
      tokenizer_.AppendPieces(word_, ids_);
      cache_.Insert(word_, std::span(ids_).subspan(begin));
    }
    Drop();
  }

  void Drop() {
    word_.clear();
    characters_ = 0;
  }

  void Take(BertNormalizer::Character character) {
    if (character.role == Role::kPart) return Add(character.as);
    if (character.role == Role::kNothing) return;
    if (character.role == Role::kSyllable) return AddSyllable(character.as);
    End();
    if (character.role == Role::kSpace) return;
    Add(character.as);
    End();
  }

  void AddToken(int32_t id) { ids_.push_back(id); }

 private:
  const WordPiece& tokenizer_;
  WordCache& cache_;
  std::vector<int32_t>& ids_;
  std::string word_;
  int64_t characters_ = 0;
};

WordPiece::WordPiece(Vocabulary vocabulary, WordPieceOptions options)
    : vocabulary_(std::move(vocabulary)),
      options_(std::move(options)),
      normalizer_(options_.normalizer) {
  DDPRUN_CHECK(options_.special.unknown >= 0);
  for (char32_t c = 0; c < ascii_.size(); ++c) ascii_[c] = normalizer_.LookUp(c);
  for (AddedToken token : vocabulary_.added()) {
    if (token.normalized) token.content = normalizer_.Normalize(token.content);
    (token.normalized ? normalized_tokens_ : raw_tokens_).Add(token);
    if (token.content.find_first_of("\r\n") != std::string::npos || token.left_strip ||
        token.right_strip) {
      splits_at_lines_ = false;
    }
  }
  FillTries();
}

void WordPiece::FillTries() {
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view text = vocabulary_.Text(id);
    if (vocabulary_.Find(text) != id) continue;
    first_pieces_.Insert(text, id);
    if (text.starts_with(options_.continuation)) {
      next_pieces_.Insert(text.substr(options_.continuation.size()), id);
    }
  }
}

void WordPiece::Encode(std::string_view utf8, std::vector<int32_t>& ids) const {
  std::string storage;
  const std::string_view text = ValidUtf8(utf8, storage);
  Words words(*this, ids);
  const auto add_token = [&words](int32_t id) { words.AddToken(id); };
  raw_tokens_.Split(
      text,
      [&](std::string_view part) {
        if (normalized_tokens_.empty()) return EncodePart(part, words);
        normalized_tokens_.Split(
            normalizer_.Normalize(part),
            [&](std::string_view normal) { EncodeNormalized(normal, words); }, add_token);
      },
      add_token);
}

void WordPiece::EncodePart(std::string_view text, Words& words) const {
  size_t begin = 0;  // of the next EncodeRare(): after the last kSpace or kAlone
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    const auto byte = static_cast<uint8_t>(text[at]);
    const BertNormalizer::Character character =
        byte < 0x80 ? ascii_[text[at++]] : normalizer_.LookUp(NextCharacter(text, at));
    if (character.role == Role::kRare) {
      at = EncodeRare(text, begin, here, words);
      begin = at;
      continue;
    }
    words.Take(character);
    if (character.role == Role::kSpace || character.role == Role::kAlone) begin = at;
  }
  words.End();
}

// Encodes text[begin, the next space), which has a character at `at` whose normal form depends on
// its neighbours. No character affects others across a space. Returns the end.
size_t WordPiece::EncodeRare(std::string_view text, size_t begin, size_t at, Words& words) const {
  size_t end = at;
  for (size_t next = at; end < text.size(); end = next) {
    if (normalizer_.LookUp(NextCharacter(text, next)).role == Role::kSpace) break;
  }
  words.Drop();
  EncodeNormalized(normalizer_.Normalize(text.substr(begin, end - begin)), words);
  return end;
}

void WordPiece::EncodeNormalized(std::string_view text, Words& words) const {
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCharacter(text, at);
    words.Take({RoleOfNormalized(c), c});
  }
  words.End();
}

void WordPiece::AppendPieces(std::string_view word, std::vector<int32_t>& ids) const {
  const size_t begin = ids.size();
  const ByteTrie* pieces = &first_pieces_;
  while (!word.empty()) {
    const ByteTrie::Match match = pieces->Longest(word);
    if (match.length == 0) {
      ids.resize(begin);
      ids.push_back(options_.special.unknown);
      return;
    }
    ids.push_back(match.value);
    word.remove_prefix(match.length);
    pieces = &next_pieces_;
  }
}

std::string WordPiece::Decode(std::span<const int32_t> ids) const {
  std::string text;
  bool first = true;
  for (const int32_t id : ids) {
    const std::string_view token = vocabulary_.Text(id);
    if (token.empty() || vocabulary_.IsSpecial(id)) continue;
    std::string part(token);
    if (!first && token.starts_with(options_.continuation)) {
      part.erase(0, options_.continuation.size());
    } else if (!first) {
      part.insert(0, " ");
    }
    if (options_.clean_up_tokens) CleanUpToken(part);
    text += part;
    first = false;
  }
  if (options_.clean_up) CleanUpText(text);
  return text;
}

}  // namespace ddprun::trainer
