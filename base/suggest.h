// "Did you mean": the nearest of some words by edit distance.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

// Edits (insert, delete, replace, swap neighbours) that turn `a` into `b`.
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, whatever the case of its letters, unless even that one is too
// far off to be meant: more than a quarter of the letters, and more than one.
std::optional<std::string> Nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace ddprun
