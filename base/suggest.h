// "Did you mean": the nearest of some words by edit distance.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

// Edits (insert, delete, replace, swap neighbours) that turn `a` into `b`.
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, unless even that one is too far off to be meant
// (more than a third of the letters, at least two).
std::optional<std::string> Nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace ddprun
