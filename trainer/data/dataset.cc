#include "trainer/data/dataset.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ddprun::trainer {

DatasetRange::DatasetRange(const Dataset& whole, int64_t first, int64_t count)
    : whole_(whole), first_(first), count_(count) {
  DDPRUN_CHECK(first >= 0 && count >= 0 && first + count <= whole.size());
}

std::vector<int64_t> DatasetRange::Shifted(std::span<const int64_t> indices) const {
  std::vector<int64_t> shifted(indices.begin(), indices.end());
  for (int64_t& index : shifted) {
    DDPRUN_CHECK(index >= 0 && index < count_);
    index += first_;
  }
  return shifted;
}

Batch DatasetRange::Get(std::span<const int64_t> indices) const {
  return whole_.Get(Shifted(indices));
}

Batch DatasetRange::GetVaried(std::span<const int64_t> indices, int64_t epoch) const {
  return whole_.GetVaried(Shifted(indices), epoch);
}

std::vector<int64_t> DatasetRange::Lengths() const {
  const std::vector<int64_t> lengths = whole_.Lengths();
  if (lengths.empty()) return lengths;
  return {lengths.begin() + first_, lengths.begin() + first_ + count_};
}

DatasetSubset::DatasetSubset(const Dataset& whole, std::vector<int64_t> indices)
    : whole_(whole), indices_(std::move(indices)) {
  for (const int64_t index : indices_) DDPRUN_CHECK(index >= 0 && index < whole.size());
}

std::vector<int64_t> DatasetSubset::Mapped(std::span<const int64_t> indices) const {
  std::vector<int64_t> mapped;
  mapped.reserve(indices.size());
  for (const int64_t index : indices) {
    DDPRUN_CHECK(index >= 0 && index < size());
    mapped.push_back(indices_[index]);
  }
  return mapped;
}

Batch DatasetSubset::Get(std::span<const int64_t> indices) const {
  return whole_.Get(Mapped(indices));
}

Batch DatasetSubset::GetVaried(std::span<const int64_t> indices, int64_t epoch) const {
  return whole_.GetVaried(Mapped(indices), epoch);
}

std::vector<int64_t> DatasetSubset::Lengths() const {
  const std::vector<int64_t> lengths = whole_.Lengths();
  std::vector<int64_t> selected;
  if (lengths.empty()) return selected;
  for (const int64_t index : indices_) selected.push_back(lengths[index]);
  return selected;
}

int64_t ValidationCount(int64_t size, double fraction) {
  DDPRUN_CHECK(fraction >= 0 && fraction < 1);
  if (fraction == 0 || size == 0) return 0;
  const auto count = static_cast<int64_t>(static_cast<double>(size) * fraction);
  return std::min(std::max<int64_t>(count, 1), size - 1);
}

}  // namespace ddprun::trainer
