#include "trainer/optim/name_words.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace ddprun::trainer {

namespace {

// The words of a name without separators: layer, 1, 0, bn, 1, weight for "layer1.0.bn1.weight", and
// layer, norm for "LayerNorm".
struct WordsOfName {
  explicit WordsOfName(std::string_view name) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
    char last = '.';
    for (const char letter : name) {
      const bool separator = letter == '.' || letter == '_';
      if (!separator) {
        borders.push_back(last == '.' || last == '_' || is_digit(letter) != is_digit(last) ||
                          (is_upper(letter) && !is_upper(last)));
        text += letter;
      }
      last = letter;
    }
    borders.push_back(true);
    text = ToAsciiLower(text);
  }

  bool Contain(const std::string& wanted) const {
    for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) {
      if (!wanted.empty() && borders[at] && borders[at + wanted.size()]) return true;
    }
    return false;
  }

  std::string text;
  std::vector<bool> borders;  // whether a word begins, or the last one ends, at this letter
};

}  // namespace

bool HasAnyWord(const std::string& name, const std::vector<std::string>& words) {
  const WordsOfName all(name);
  return std::ranges::any_of(
      words, [&](const std::string& some) { return all.Contain(WordsOfName(some).text); });
}

}  // namespace ddprun::trainer
