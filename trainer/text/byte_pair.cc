#include "trainer/text/byte_pair.h"

#include <utility>

#include "trainer/text/clean_up.h"
#include "trainer/text/utf8.h"

namespace ddprun::trainer {

namespace {

constexpr char32_t kAlphabetEnd = 0x144;  // after the last character that spells a byte

bool SpellsItself(char32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

std::array<int16_t, kAlphabetEnd> MakeBytesOfCharacters() {
  std::array<int16_t, kAlphabetEnd> bytes;
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte) {
    bytes[AlphabetCharacter(static_cast<uint8_t>(byte))] = static_cast<int16_t>(byte);
  }
  return bytes;
}

}  // namespace

char32_t AlphabetCharacter(uint8_t byte) {
  if (SpellsItself(byte)) return byte;
  char32_t character = 0x100;
  for (char32_t other = 0; other < byte; ++other) character += SpellsItself(other) ? 0 : 1;
  return character;
}

std::optional<std::string> BytesOfToken(std::string_view token) {
  static const std::array<int16_t, kAlphabetEnd> kBytes = MakeBytesOfCharacters();
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const char32_t c = NextCharacter(token, at);
    if (c >= kAlphabetEnd || kBytes[c] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kBytes[c]));
  }
  return bytes;
}

class BytePair::Words {
 public:
  Words(const BytePair& tokenizer, std::vector<int32_t>& ids)
      : tokenizer_(tokenizer), cache_(WordCache::ForThread(tokenizer.cache_owner_)), ids_(ids) {}

  void Add(std::string_view word) {
    if (cache_.Find(word, ids_)) return;
    symbols_.clear();
    const auto whole = tokenizer_.whole_words_.find(word);
    if (whole != tokenizer_.whole_words_.end()) {
      symbols_.push_back(whole->second);
    } else {
      for (const char byte : word) {
        const int32_t id = tokenizer_.byte_ids_[static_cast<uint8_t>(byte)];
        if (id >= 0) symbols_.push_back(id);
      }
      tokenizer_.merges_.Apply(symbols_);
    }
    cache_.Insert(word, symbols_);
    ids_.insert(ids_.end(), symbols_.begin(), symbols_.end());
  }

  void AddToken(int32_t id) { ids_.push_back(id); }

 private:
  const BytePair& tokenizer_;
  WordCache& cache_;
  std::vector<int32_t>& ids_;
  std::vector<int32_t> symbols_;
};

BytePair::BytePair(Vocabulary vocabulary, std::span<const Merge> merges, BytePairOptions options)
    : vocabulary_(std::move(vocabulary)), options_(options), merges_(merges) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling;
    AppendCharacter(AlphabetCharacter(static_cast<uint8_t>(byte)), spelling);
    byte_ids_[byte] = vocabulary_.Find(spelling);
  }
  splits_at_lines_ = !options_.add_prefix_space;
  for (const AddedToken& token : vocabulary_.added()) {
    (token.normalized ? normalized_tokens_ : raw_tokens_).Add(token);
    if (token.content.find_first_of("\r\n") != std::string::npos || token.left_strip ||
        token.right_strip) {
      splits_at_lines_ = false;
    }
  }
  bytes_.resize(vocabulary_.size());
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view token = vocabulary_.Text(id);
    std::optional<std::string> bytes = BytesOfToken(token);
    bytes_[id] = bytes ? *std::move(bytes) : std::string(token);
    if (options_.ignore_merges && bytes && !token.empty()) whole_words_.emplace(bytes_[id], id);
  }
}

void BytePair::Encode(std::string_view utf8, std::vector<int32_t>& ids) const {
  std::string storage;
  const std::string_view text = ValidUtf8(utf8, storage);
  Words words(*this, ids);
  const auto add_token = [&words](int32_t id) { words.AddToken(id); };
  raw_tokens_.Split(
      text,
      [&](std::string_view part) {
        normalized_tokens_.Split(
            part, [&](std::string_view rest) { EncodePart(rest, words); }, add_token);
      },
      add_token);
}

void BytePair::EncodePart(std::string_view text, Words& words) const {
  std::string prefixed;
  if (options_.add_prefix_space && text[0] != ' ') {
    prefixed.append(1, ' ').append(text);
    text = prefixed;
  }
  while (!text.empty()) {
    const size_t length = FirstWord(text, options_.rule);
    words.Add(text.substr(0, length));
    text.remove_prefix(length);
  }
}

std::string BytePair::Decode(std::span<const int32_t> ids) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocabulary_.size() && !vocabulary_.IsSpecial(id)) bytes += bytes_[id];
  }
  std::string storage;
  std::string text(ValidUtf8(bytes, storage));
  if (options_.clean_up) CleanUpText(text);
  return text;
}

}  // namespace ddprun::trainer
