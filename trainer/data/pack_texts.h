// Puts texts of different lengths together, so that little padding is computed. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddprun::trainer {

// Returns packs of texts, each with the texts' indices, whose lengths add up to `capacity` at most.
// Takes the longest text first, and puts it where it leaves the least room (best fit decreasing).
// REQUIRES: no length is above `capacity`.
std::vector<std::vector<int64_t>> PackTexts(std::span<const int64_t> lengths, int64_t capacity);

}  // namespace ddprun::trainer
