// Words of parameters' names, by which configs choose parameters.
#pragma once

#include <string>
#include <vector>

namespace ddprun::trainer {

// Returns whether a name has one of the words. Dots, underscores, digits and capital letters
// separate words, and case does not count: "bn" is a word of "bn1.weight", not of "subnet.weight".
// An entry may be several words in a row: "LayerNorm.weight", "downsample.1".
bool HasAnyWord(const std::string& name, const std::vector<std::string>& words);

}  // namespace ddprun::trainer
