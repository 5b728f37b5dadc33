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

// The same for a missing file: where no whole name is near, one that is without its extension.
std::optional<std::string> NearestFile(const std::string& name, std::span<const std::string> files);

}  // namespace ddprun
