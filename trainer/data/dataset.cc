#include "trainer/data/dataset.h"

#include <algorithm>

#include "base/check.h"

namespace ddprun::trainer {

namespace {

constexpr int64_t kIgnored = -100;  // a target that does not count

}  // namespace

std::vector<int64_t> DatasetPart::Places(std::span<const int64_t> indices) const {
  std::vector<int64_t> places;
  places.reserve(indices.size());
  for (const int64_t index : indices) {
    DDPRUN_CHECK(index >= 0 && index < size_);
    places.push_back(place_(index));
  }
  return places;
}

std::vector<int64_t> DatasetPart::Selected(const std::vector<int64_t>& of_whole) const {
  std::vector<int64_t> selected;
  if (of_whole.empty()) return selected;
  for (int64_t i = 0; i < size_; ++i) selected.push_back(of_whole[place_(i)]);
  return selected;
}

void WeighSamples(const at::Tensor& weights, Batch& batch) {
  batch.weights = batch.weights.defined() ? batch.weights.mul(weights) : weights;
  batch.sum_of_weights = SumOfWeights(batch);
}

double SumOfWeights(const Batch& batch) {
  return batch.weights.sum(at::kDouble).item<double>();
}

void WeighClasses(const std::vector<double>& weights, Batch& batch) {
  const auto* targets = batch.targets.const_data_ptr<int64_t>();
  at::Tensor of_samples = at::empty({batch.samples}, at::kFloat);
  auto* to = of_samples.mutable_data_ptr<float>();
  const auto last = std::ssize(weights) - 1;
  for (int64_t i = 0; i < batch.samples; ++i) {
    to[i] = static_cast<float>(weights[std::clamp<int64_t>(targets[i], 0, last)]);
  }
  WeighSamples(of_samples, batch);
}

std::vector<Batch> SplitBatch(Batch batch, int64_t parts) {
  parts = std::min(parts, batch.samples);
  if (parts <= 1) return {std::move(batch)};
  std::vector<Batch> split;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = i * batch.samples / parts;
    const int64_t count = (i + 1) * batch.samples / parts - begin;
    Batch part = batch;
    for (at::Tensor* tensor : part.Tensors()) {
      if (tensor->defined()) *tensor = tensor->narrow(0, begin, count);
    }
    part.samples = count;
    const bool words = part.targets.defined() && !part.targets.is_floating_point();
    part.predictions = words ? part.targets.ne(kIgnored).sum().item<int64_t>()
                             : batch.predictions / batch.samples * count;
    if (part.weights.defined()) part.sum_of_weights = SumOfWeights(part);
    split.push_back(std::move(part));
  }
  return split;
}

int64_t ValidationCount(int64_t size, double fraction) {
  DDPRUN_CHECK(fraction >= 0 && fraction < 1);
  if (fraction == 0 || size == 0) return 0;
  const auto count = static_cast<int64_t>(static_cast<double>(size) * fraction);
  return std::min(std::max<int64_t>(count, 1), size - 1);
}

}  // namespace ddprun::trainer
