// Parts of data sets and of batches.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ddprun/dataset.h>

namespace ddprun::trainer {

// Some samples of another data set, which must outlive this one.
class DatasetPart final : public Dataset {
 public:
  // Sample i is sample place(i) of `whole`. REQUIRES: `whole` has it for every i below `size`.
  DatasetPart(const Dataset& whole, int64_t size, std::function<int64_t(int64_t)> place)
      : whole_(whole), size_(size), place_(std::move(place)) {}

  int64_t size() const override { return size_; }
  Batch Get(std::span<const int64_t> indices) const override { return whole_.Get(Places(indices)); }
  Batch GetVaried(std::span<const int64_t> indices, int64_t epoch) const override {
    return whole_.GetVaried(Places(indices), epoch);
  }
  DataShape shape() const override { return whole_.shape(); }
  int64_t tokens_per_sample() const override { return whole_.tokens_per_sample(); }
  bool equal_predictions() const override { return whole_.equal_predictions(); }
  std::vector<int64_t> Lengths() const override { return Selected(whole_.Lengths()); }
  std::vector<int64_t> Classes() const override { return Selected(whole_.Classes()); }
  std::vector<std::string> Files() const override { return whole_.Files(); }
  bool in_memory() const override { return whole_.in_memory(); }

  const Dataset& whole() const { return whole_; }

 private:
  std::vector<int64_t> Places(std::span<const int64_t> indices) const;
  std::vector<int64_t> Selected(const std::vector<int64_t>& of_whole) const;

  const Dataset& whole_;
  const int64_t size_;
  const std::function<int64_t(int64_t)> place_;
};

// Divides the batch into `parts` batches, or as many as there are samples, in the order of the
// samples; sizes differ by one at most. REQUIRES: a batch on the host.
std::vector<Batch> SplitBatch(Batch batch, int64_t parts);

// Weighs each sample, besides the weight that it has. `weights`: float32 [B] on the host.
void WeighSamples(const at::Tensor& weights, Batch& batch);

// Returns the sum of batch.weights. REQUIRES: the batch has them, on the host.
double SumOfWeights(const Batch& batch);

// Weighs each sample by its class, besides the weight that it has. REQUIRES: a batch on the host
// with classes [B]. Classes without a weight get the last one: the loss refuses them.
void WeighClasses(const std::vector<double>& weights, Batch& batch);

// Returns the number of last samples, of `size`, that are kept for validation: the fraction rounded
// down, but at least one if the fraction is positive, and never all. REQUIRES: 0 <= fraction < 1.
int64_t ValidationCount(int64_t size, double fraction);

}  // namespace ddprun::trainer
