#include "trainer/plugin/plugin_dataset.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "trainer/data/dataset.h"
#include "trainer/plugin/load_plugin.h"

namespace ddprun::trainer {

namespace {

// Returns "reading the samples 7, 3, 12, ... (64)".
std::string Reading(std::span<const int64_t> indices) {
  constexpr size_t kShown = 8;
  std::string text = indices.size() == 1 ? "reading sample " : "reading the samples ";
  for (size_t i = 0; i < std::min(indices.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(indices[i]);
  }
  if (indices.size() > kShown) text += ", ... (" + std::to_string(indices.size()) + ")";
  return text;
}

int64_t ThreadCount() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// Returns the number of threads beyond `before` that stay. Tries several times, because a joined
// thread stays in the list for a moment.
int64_t ThreadsAbove(int64_t before) {
  constexpr int kTries = 50;
  int64_t above = ThreadCount() - before;
  for (int i = 0; i < kTries && above > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    above = ThreadCount() - before;
  }
  return std::max<int64_t>(above, 0);
}

}  // namespace

PluginDataset::PluginDataset(Plugin plugin, const PluginDataOptions& options)
    : plugin_(std::move(plugin)),
      files_(options.files),
      dataset_(Open(options)),
      size_(CallPlugin(
          plugin_.path(), [] { return "counting the samples"; }, [&] { return dataset_->size(); })),
      equal_predictions_(dataset_->equal_predictions()) {
  if (size_ > 0) return;
  throw PluginError(plugin_.path(), "The plugin's data set has " + std::to_string(size_) +
                                        " samples; at least one was expected.");
}

std::unique_ptr<Dataset> PluginDataset::Open(const PluginDataOptions& options) {
  const int64_t before = ThreadCount();
  auto dataset = plugin_.OpenDataset(options);
  threads_left_ = ThreadsAbove(before);
  return dataset;
}

Batch PluginDataset::Get(std::span<const int64_t> indices) const {
  return CallPlugin(
      plugin_.path(), [&] { return Reading(indices); },
      [&] { return CheckBatch(dataset_->Get(indices), indices); });
}

Batch PluginDataset::GetVaried(std::span<const int64_t> indices, int64_t epoch) const {
  return CallPlugin(
      plugin_.path(), [&] { return Reading(indices); },
      [&] { return CheckBatch(dataset_->GetVaried(indices, epoch), indices); });
}

DataShape PluginDataset::shape() const {
  return CallPlugin(
      plugin_.path(), [] { return "asking for the samples' shape"; },
      [&] { return dataset_->shape(); });
}

std::vector<int64_t> PluginDataset::Lengths() const {
  auto lengths = CallPlugin(
      plugin_.path(), [] { return "asking for the samples' lengths"; },
      [&] { return dataset_->Lengths(); });
  if (lengths.empty() || static_cast<int64_t>(lengths.size()) == size_) return lengths;
  throw PluginError(plugin_.path(), "The plugin gives " + std::to_string(lengths.size()) +
                                        " lengths for " + std::to_string(size_) + " samples.");
}

std::vector<int64_t> PluginDataset::Classes() const {
  const int64_t classes = shape().classes;
  auto of_samples = CallPlugin(
      plugin_.path(), [] { return "asking for the samples' classes"; },
      [&] { return dataset_->Classes(); });
  if (of_samples.empty()) return of_samples;
  if (std::ssize(of_samples) != size_) {
    throw PluginError(plugin_.path(), "The plugin gives " + std::to_string(of_samples.size()) +
                                          " classes for " + std::to_string(size_) + " samples.");
  }
  for (size_t i = 0; i < of_samples.size(); ++i) {
    if (of_samples[i] >= 0 && of_samples[i] < classes) continue;
    throw PluginError(plugin_.path(), "The plugin gives sample " + std::to_string(i) +
                                          " the class " + std::to_string(of_samples[i]) +
                                          "; its shape() has " + std::to_string(classes) +
                                          " classes, the first of which is 0.");
  }
  return of_samples;
}

std::vector<std::string> PluginDataset::Notes() const {
  auto notes = CallPlugin(
      plugin_.path(), [] { return "asking for notes"; }, [&] { return dataset_->Notes(); });
  // This is not an error, because a library may restart its threads after a fork.
  if (threads_left_ > 0) {
    notes.push_back("opening the plugin's data set left threads running (" +
                    std::to_string(threads_left_) +
                    "); ranks, which are forked from that process, lack them, and one that waits "
                    "for them hangs");
  }
  return notes;
}

Batch PluginDataset::CheckBatch(Batch batch, std::span<const int64_t> indices) const {
  const auto count = static_cast<int64_t>(indices.size());
  if (batch.samples == 0) {
    batch.samples = count;
    if (batch.predictions == 0) batch.predictions = count;
  }
  if (batch.samples != count || batch.predictions < 0) {
    throw PluginError(plugin_.path(), "After " + Reading(indices) +
                                          ": the batch says that it has " +
                                          std::to_string(batch.samples) + " samples and " +
                                          std::to_string(batch.predictions) + " predictions.");
  }
  const std::pair<const char*, const at::Tensor*> tensors[] = {
      {"inputs", &batch.inputs},
      {"targets", &batch.targets},
      {"attention_mask", &batch.attention_mask},
      {"token_type_ids", &batch.token_type_ids},
      {"weights", &batch.weights}};
  for (const auto& [name, tensor] : tensors) {
    const bool optional = tensor != &batch.inputs && tensor != &batch.targets;
    if (optional && !tensor->defined()) continue;
    if (tensor->defined() && tensor->dim() > 0 && tensor->size(0) == count) continue;
    const std::string found = !tensor->defined()   ? "undefined"
                              : tensor->dim() == 0 ? "a scalar"
                                                   : std::to_string(tensor->size(0)) + " samples";
    throw PluginError(plugin_.path(), "After " + Reading(indices) + ": `" + name + "` is " + found +
                                          "; " + std::to_string(count) +
                                          " samples along dimension 0 were expected.");
  }
  if (equal_predictions_) CheckPredictions(batch);
  if (batch.weights.defined()) CheckWeights(batch);
  return batch;
}

// Checks a data set whose equal_predictions() is true. Ranks then do not sum their counts, so
// unequal ones would make the mean over all ranks wrong without a message.
void PluginDataset::CheckPredictions(const Batch& batch) const {
  const double own = static_cast<double>(batch.predictions) / static_cast<double>(batch.samples);
  double first = 0;
  if (predictions_per_sample_.compare_exchange_strong(first, own) || first == own) return;
  throw PluginError(plugin_.path(),
                    "A batch has " + std::to_string(own) + " predictions per sample, another " +
                        std::to_string(first) +
                        ": such a data set must override equal_predictions() to return false.");
}

// Sums the weights if the plugin did not. Ranks weigh their losses by these sums only if
// equal_predictions() is false.
void PluginDataset::CheckWeights(Batch& batch) const {
  std::string wrong;
  if (equal_predictions_) {
    wrong = ": such a data set must override equal_predictions() to return false.";
  } else if (batch.weights.dim() != 1 || batch.weights.scalar_type() != at::kFloat) {
    wrong = "; float32 numbers were expected, one for each sample.";
  } else {
    const double sum = SumOfWeights(batch);
    if (batch.sum_of_weights == 0) batch.sum_of_weights = sum;
    if (!(sum > 0) || !std::isfinite(sum)) {
      wrong = " with the sum " + std::to_string(sum) + "; a sum above 0 was expected.";
    } else if (std::abs(batch.sum_of_weights - sum) > 1e-4 * sum) {
      wrong = " with the sum " + std::to_string(sum) + ", but `sum_of_weights` is " +
              std::to_string(batch.sum_of_weights) + ".";
    }
  }
  if (!wrong.empty()) throw PluginError(plugin_.path(), "A batch has `weights`" + wrong);
}

}  // namespace ddprun::trainer
