// The loop's interface to data: the number of samples, and any of them as one batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::trainer {

// One batch: B samples along dim 0 of every tensor, in the order of the requested indices.
struct Batch {
  at::Tensor inputs;   // numbers [B, ...], images [B, C, H, W], or token ids int64 [B, L]
  at::Tensor targets;  // numbers [B, ...], classes int64 [B], or token ids int64 [B, L]
  // int64 [B, L], 1 for tokens and 0 for padding; undefined: no padding.
  at::Tensor attention_mask = {};
  // int64 [B, L], the text of a pair that each token belongs to; undefined: the first text.
  at::Tensor token_type_ids = {};
  int64_t samples = 0;  // B
  // Number of predictions in the mean loss: the samples, or the target tokens that count.
  int64_t predictions = 0;
  // For a batch on a device: copies on the host of values that the host needs.
  struct OnHost {
    at::Tensor attention_mask = {};
    std::optional<int64_t> largest_target = {};  // of integer targets
  };
  OnHost on_host = {};

  // Returns the tensors that a model gets; some may be undefined.
  std::array<at::Tensor*, 4> Tensors() {
    return {&inputs, &targets, &attention_mask, &token_type_ids};
  }
  std::array<const at::Tensor*, 4> Tensors() const {
    return {&inputs, &targets, &attention_mask, &token_type_ids};
  }
};

// The sizes that a model must have. A field is empty or 0 if it does not apply.
struct DataShape {
  std::vector<int64_t> input = {};       // of one sample's numbers: {features} or {C, H, W}
  std::vector<int64_t> target = {};      // of one sample's target numbers: {1} for one number
  int64_t classes = 0;                   // targets are below this
  std::vector<std::string> labels = {};  // a name for each class, if the data has names
  int64_t vocab_size = 0;                // token ids are below this

  bool operator==(const DataShape&) const = default;
};

// Immutable after construction: any thread may call any method.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  // Returns the samples `indices` as one batch. REQUIRES: every index is in [0, size()), and there
  // is at least one.
  virtual Batch Get(std::span<const int64_t> indices) const = 0;
  // Returns the samples `indices` as one batch for training in an epoch. If the data set was opened
  // for random variation (images), varies each sample by its index and the epoch alone, so that
  // every thread and rank gets the same result. Otherwise equals Get().
  virtual Batch GetVaried(std::span<const int64_t> indices, int64_t /*epoch*/) const {
    return Get(indices);
  }
  virtual DataShape shape() const { return {}; }
  // Returns the predicted tokens per sample, for tokens/s; 0 means that samples have no tokens.
  virtual int64_t tokens_per_sample() const { return 0; }
  // Returns whether batches with equally many samples have equally many predictions. If not, ranks
  // sum their counts before each step.
  virtual bool equal_predictions() const { return true; }
  // Returns each sample's length in tokens, for batches of similar lengths; empty means that all
  // are equally long. May take as long as reading all samples once.
  virtual std::vector<int64_t> Lengths() const { return {}; }
  // Returns the files from which samples are read during training; empty means memory, or a source
  // that only the data set's code knows.
  virtual std::vector<std::string> Files() const { return {}; }
  // Returns notes for people before training, such as how many rows were left out; a line each.
  virtual std::vector<std::string> Notes() const { return {}; }
  // Returns files, text by name, that describe inputs and outputs to users of the trained model.
  virtual std::map<std::string, std::string> ModelFiles() const { return {}; }
  // Returns whether making a batch costs less than passing it to a thread. Loader then starts none.
  virtual bool in_memory() const { return false; }
};

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
  std::vector<int64_t> Lengths() const override;
  std::vector<std::string> Files() const override { return whole_.Files(); }
  bool in_memory() const override { return whole_.in_memory(); }

 private:
  std::vector<int64_t> Places(std::span<const int64_t> indices) const;

  const Dataset& whole_;
  const int64_t size_;
  const std::function<int64_t(int64_t)> place_;
};

// Divides the batch into `parts` batches, or as many as there are samples, in the order of the
// samples; sizes differ by one at most. REQUIRES: a batch on the host.
std::vector<Batch> SplitBatch(Batch batch, int64_t parts);

// Returns the number of last samples, of `size`, that are kept for validation: the fraction rounded
// down, but at least one if the fraction is positive, and never all. REQUIRES: 0 <= fraction < 1.
int64_t ValidationCount(int64_t size, double fraction);

}  // namespace ddprun::trainer
