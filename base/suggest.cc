#include "base/suggest.h"

#include <algorithm>
#include <vector>

#include "base/ascii.h"

namespace ddprun {

size_t EditDistance(std::string_view a, std::string_view b) {
  // Optimal string alignment over three rows.
  std::vector<size_t> before_last(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::optional<std::string> Nearest(std::string_view word, std::span<const std::string> candidates) {
  // More edits make another word of it: "batch" becomes "path" by two, "fp16" becomes "fp32". One
  // letter by itself becomes any other.
  const size_t limit = word.size() < 2 ? 0 : std::max<size_t>(1, word.size() / 4);
  const std::string lower = AsciiLower(word);
  const std::string* best = nullptr;
  size_t best_distance = limit + 1;
  for (const std::string& candidate : candidates) {
    // At least so many edits are needed; a hostile word may be a megabyte long.
    const size_t longer = std::max(word.size(), candidate.size());
    if (longer - std::min(word.size(), candidate.size()) >= best_distance) continue;
    const size_t distance = EditDistance(lower, AsciiLower(candidate));
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::optional<std::string> NearestFile(const std::string& name,
                                       std::span<const std::string> files) {
  if (auto whole = Nearest(name, files)) return whole;
  // The dot of a hidden file begins no extension.
  const auto stem = [](const std::string& file) { return file.substr(0, file.find('.', 1)); };
  std::vector<std::string> stems(files.size());
  std::ranges::transform(files, stems.begin(), stem);
  const auto nearest = Nearest(stem(name), stems);
  if (!nearest) return std::nullopt;
  return files[static_cast<size_t>(std::ranges::find(stems, *nearest) - stems.begin())];
}

}  // namespace ddprun
