// Functions on text: make it printable, change its case, split and join it, and find the nearest
// of some words ("did you mean").
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

// Returns `text` without anything that a terminal would obey: drops escape sequences, and replaces
// other control characters except tabs and line ends by '?'. Keeps UTF-8.
std::string MakePrintable(std::string_view text);

// Returns whether JSON can have `text` as it is.
bool IsUtf8(std::string_view text);

// Returns "-- TITLE ------- tail" and a newline, `columns` wide, or wider if the words need it.
std::string TitleBar(std::string_view title, std::string_view tail, size_t columns, bool color);

std::vector<std::string> SplitLines(std::string_view text);

// Splits at every `separator`. An empty text has one part, which is empty.
std::vector<std::string_view> SplitAt(std::string_view text, char separator);

// Returns whether `line` is of a C++ stack in an error of LibTorch's: "frame #3: c10::Error...".
bool IsStackFrame(std::string_view line);

// Returns a text such as "1.5 GiB".
std::string FormatBytes(int64_t bytes);

// Returns a text such as "1 step" or "2 steps". `things` is the plural if it is not `thing` and an
// s.
std::string CountText(int64_t count, std::string_view thing, std::string_view things = "");

// Turns A to Z into a to z in every locale. Keeps all other bytes, also those of UTF-8.
inline std::string ToAsciiLower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

// Returns the items of a list as a text: "1, 2, 3". `items` is a range of texts or integers; each
// gets `quote` on both sides.
template <typename Items>
std::string FormatList(const Items& items,
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

// Returns the number of edits (insert, delete, replace, swap neighbours) from `a` to `b`.
size_t EditDistance(std::string_view a, std::string_view b);

// Returns the candidate nearest to `word`, ignoring case; nullopt if even the nearest differs in
// more than a quarter of the letters and in more than one.
std::optional<std::string> FindNearest(std::string_view word,
                                       std::span<const std::string> candidates);

// Returns FindNearest() of `files`; if there is none, compares names without extension.
std::optional<std::string> FindNearestFile(const std::string& name,
                                           std::span<const std::string> files);

}  // namespace ddprun
