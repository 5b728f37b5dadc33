// Text: fit to be shown, in one case, split, joined, and the nearest of some words ("did you
// mean").
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ddprun {

// Without what a terminal would obey: escape sequences go, other control characters but tabs and
// line ends become '?'. UTF-8 stays.
std::string Printable(std::string_view text);

// "-- TITLE ------- tail" of `columns`, longer when the words need it, ending in a newline.
std::string TitleBar(std::string_view title, std::string_view tail, size_t columns, bool color);

std::vector<std::string> SplitLines(std::string_view text);

// An empty text is one empty part.
std::vector<std::string_view> SplitAt(std::string_view text, char separator);

// A line of a C++ stack as LibTorch's errors carry it: "frame #3: c10::Error::Error(...)".
bool IsStackFrame(std::string_view line);

// "1.5 GiB"
std::string BinaryBytes(int64_t bytes);

// A to Z become a to z, whatever the locale. Other bytes, those of UTF-8 among them, stay.
inline std::string AsciiLower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

// The items of a list as a text: "1, 2, 3". `items`: a range of texts or integers; `quote` stands
// around each.
template <typename Items>
std::string Joined(const Items& items,
                   std::string_view between = ", ",
                   std::string_view quote = "") {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += between;
    text += quote;
    if constexpr (std::is_integral_v<std::decay_t<decltype(item)>>) {
      text += std::to_string(item);
    } else {
      text += item;
    }
    text += quote;
  }
  return text;
}

// Edits (insert, delete, replace, swap neighbours) that turn `a` into `b`.
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, whatever the case of its letters, unless even that one is too
// far off to be meant: more than a quarter of the letters, and more than one.
std::optional<std::string> Nearest(std::string_view word, std::span<const std::string> candidates);

// The same for a missing file: where no whole name is near, one that is without its extension.
std::optional<std::string> NearestFile(const std::string& name, std::span<const std::string> files);

}  // namespace ddprun
