#include "trainer/data/sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randperm.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "base/check.h"
#include "base/failure.h"

namespace ddprun::trainer {

namespace {

int64_t CeilDiv(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

const DistributedSamplerOptions& Checked(const DistributedSamplerOptions& options) {
  if (options.dataset_size >= 0 && options.rank >= 0 && options.rank < options.num_replicas) {
    return options;
  }
  throw Failure(Error{
      .code = Code::kUsage,
      .title = "WRONG SAMPLER",
      .where = "",
      .what = "The sampler was asked for rank " + std::to_string(options.rank) + " of " +
              std::to_string(options.num_replicas) + " replicas over " +
              std::to_string(options.dataset_size) +
              " samples; a rank from 0 to replicas - 1 and a size of at least 0 were expected.",
      .hint = "Take rank and replicas from the process group.",
      .page = ""});
}

}  // namespace

SamplerShare ShareOf(const DistributedSamplerOptions& options) {
  const int64_t size = options.dataset_size;
  const int64_t replicas = options.num_replicas;
  SamplerShare share;
  share.size = options.drop_last ? size / replicas : CeilDiv(size, replicas);
  share.total = share.size * replicas;
  // Entries rank, rank + replicas, ... of the first `real_total` are this rank's.
  const int64_t real_total = std::min(size, share.total);
  share.real = options.rank < real_total ? CeilDiv(real_total - options.rank, replicas) : 0;
  return share;
}

std::vector<int64_t> SelectShare(std::span<const int64_t> order,
                                 const DistributedSamplerOptions& options) {
  DDPRUN_CHECK(static_cast<int64_t>(order.size()) == options.dataset_size);
  const SamplerShare share = ShareOf(options);
  std::vector<int64_t> selected;
  selected.reserve(share.size);
  for (int64_t i = 0; i < share.size; ++i) {
    // Padding is the list's own beginning, as often as it takes.
    const int64_t position = options.rank + i * options.num_replicas;
    selected.push_back(order[position % options.dataset_size]);
  }
  return selected;
}

DistributedSampler::DistributedSampler(const DistributedSamplerOptions& options)
    : options_(Checked(options)), share_(ShareOf(options_)) {}

std::vector<int64_t> DistributedSampler::Indices() const {
  if (!options_.shuffle) {
    std::vector<int64_t> order(options_.dataset_size);
    std::iota(order.begin(), order.end(), 0);
    return SelectShare(order, options_);
  }
  const at::Generator generator =
      at::detail::createCPUGenerator(options_.seed + static_cast<uint64_t>(epoch_));
  const at::Tensor order = at::randperm(options_.dataset_size, generator, at::kLong);
  return SelectShare({order.const_data_ptr<int64_t>(), static_cast<size_t>(order.numel())},
                     options_);
}

std::vector<int64_t> DistributedSampler::IndicesWithoutPadding() const {
  std::vector<int64_t> indices = Indices();
  indices.resize(share_.real);
  return indices;
}

}  // namespace ddprun::trainer
