// A plugin's data set, with checks of its results.
#pragma once

#include <atomic>
#include <memory>

#include "trainer/plugin/load_plugin.h"

namespace ddprun::trainer {

// Methods except tokens_per_sample() and in_memory() throw Failure if the plugin's code threw, or
// if its batch does not have the form of Batch.
class PluginDataset final : public Dataset {
 public:
  PluginDataset(Plugin plugin, const PluginDataOptions& options);

  int64_t size() const override { return size_; }
  Batch Get(std::span<const int64_t> indices) const override;
  Batch GetVaried(std::span<const int64_t> indices, int64_t epoch) const override;
  DataShape shape() const override;
  int64_t tokens_per_sample() const override { return dataset_->tokens_per_sample(); }
  bool equal_predictions() const override { return equal_predictions_; }
  std::vector<int64_t> Lengths() const override;
  std::vector<int64_t> Classes() const override;
  std::vector<std::string> Files() const override { return files_; }
  std::vector<std::string> Notes() const override;
  bool in_memory() const override { return dataset_->in_memory(); }

 private:
  std::unique_ptr<Dataset> Open(const PluginDataOptions& options);
  Batch CheckBatch(Batch batch, std::span<const int64_t> indices) const;
  void CheckPredictions(const Batch& batch) const;
  void CheckWeights(Batch& batch) const;

  const Plugin plugin_;
  const std::vector<std::string> files_;
  int64_t threads_left_ = 0;  // threads that the constructor left running
  const std::unique_ptr<Dataset> dataset_;
  const int64_t size_;
  const bool equal_predictions_;
  // Predictions per sample of the first batch, if all batches must have equally many; 0: none yet.
  mutable std::atomic<double> predictions_per_sample_ = 0;
};

}  // namespace ddprun::trainer
