// A number for each different text. LibTorch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace ddprun::trainer {

// Texts, numbered in the order in which they came.
class TextNumbers {
 public:
  explicit TextNumbers(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) Add(text);
  }

  std::optional<int64_t> Find(const std::string& text) const {
    const auto found = numbers_.find(text);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }
  int64_t Add(const std::string& text) {
    const auto [place, added] = numbers_.emplace(text, size());
    if (added) texts_.push_back(text);
    return place->second;
  }
  int64_t size() const { return static_cast<int64_t>(texts_.size()); }
  std::vector<std::string>& texts() { return texts_; }

 private:
  std::unordered_map<std::string, int64_t> numbers_;
  std::vector<std::string> texts_;
};

}  // namespace ddprun::trainer
