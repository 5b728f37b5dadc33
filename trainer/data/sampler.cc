#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randperm.h>

#include <algorithm>
#include <numeric>
#include <string>

#include <ddprun/sampler.h>
#include "base/check.h"
#include "base/failure.h"

namespace ddprun {

using namespace trainer;  // NOLINT: the internals of this library

namespace {

int64_t CeilDiv(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

int64_t GroupSizeOf(const DistributedSamplerOptions& options) {
  return options.lengths.empty() ? 0 : options.group_size;
}

std::string OrderText(bool shuffle, int64_t group_size) {
  if (group_size > 0) return "lengths, in groups of " + std::to_string(group_size);
  return shuffle ? "chance alone" : "the files";
}

const DistributedSamplerOptions& CheckOptions(const DistributedSamplerOptions& options) {
  DDPRUN_CHECK(options.lengths.empty() ||
               (options.shuffle && options.group_size > 0 &&
                static_cast<int64_t>(options.lengths.size()) == options.dataset_size));
  if (options.dataset_size >= 0 && options.rank >= 0 && options.rank < options.num_replicas &&
      options.global_batch % options.num_replicas == 0) {
    return options;
  }
  throw Failure(Error{
      .code = Code::kUsage,
      .title = "WRONG SAMPLER",
      .what = "The sampler was asked for rank " + std::to_string(options.rank) + " of " +
              std::to_string(options.num_replicas) + " replicas over " +
              std::to_string(options.dataset_size) + " samples, in global batches of " +
              std::to_string(options.global_batch) +
              "; a rank from 0 to replicas - 1, a size of at least 0 and a global batch that the "
              "replicas divide were expected.",
      .hint = "Take rank and replicas from the process group."});
}

}  // namespace

SamplerShare ShareOf(const DistributedSamplerOptions& options) {
  const int64_t size = options.dataset_size;
  const int64_t replicas = options.num_replicas;
  SamplerShare share;
  const int64_t unit = options.global_batch > 0 ? options.global_batch : replicas;
  share.total = (options.drop_last ? size / unit : CeilDiv(size, unit)) * unit;
  share.size = share.total / replicas;
  // This rank has the entries rank, rank + replicas, ... of the first `real_total`.
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
    // Padding repeats the list from its beginning, as often as needed.
    const int64_t position = options.rank + i * options.num_replicas;
    selected.push_back(order[position % options.dataset_size]);
  }
  return selected;
}

std::vector<int64_t> GroupByLength(std::vector<int64_t> permutation,
                                   std::span<const int64_t> lengths,
                                   int64_t group_size) {
  DDPRUN_CHECK(permutation.size() == lengths.size() && group_size > 0);
  if (permutation.empty()) return permutation;
  // Like get_length_grouped_indices: at least four stretches, each of 50 groups at most.
  const auto size = static_cast<int64_t>(permutation.size());
  const int64_t groups = std::max<int64_t>(1, std::min<int64_t>(size / (group_size * 4), 50));
  int64_t longest = 0;  // begin of the stretch that has the longest sample
  for (int64_t begin = 0; begin < size; begin += groups * group_size) {
    const int64_t end = std::min(begin + groups * group_size, size);
    std::stable_sort(permutation.begin() + begin, permutation.begin() + end,
                     [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
    if (lengths[permutation[begin]] > lengths[permutation[longest]]) longest = begin;
  }
  std::swap(permutation[0], permutation[longest]);
  return permutation;
}

DistributedSampler::DistributedSampler(const DistributedSamplerOptions& options)
    : options_(CheckOptions(options)), share_(ShareOf(options_)) {}

std::vector<int64_t> DistributedSampler::Indices(int64_t ranks) const {
  std::vector<int64_t> order;
  at::Tensor permutation;
  std::span<const int64_t> all;
  if (options_.shuffle) {
    const at::Generator generator =
        at::detail::createCPUGenerator(options_.seed + static_cast<uint64_t>(epoch_));
    permutation = at::randperm(options_.dataset_size, generator, at::kLong);
    all = {permutation.const_data_ptr<int64_t>(), static_cast<size_t>(permutation.numel())};
    if (!options_.lengths.empty()) {
      order = GroupByLength({all.begin(), all.end()}, options_.lengths, options_.group_size);
      all = order;
    }
  } else {
    order.resize(options_.dataset_size);
    std::iota(order.begin(), order.end(), 0);
    all = order;
  }
  std::vector<int64_t> indices = SelectShare(all, options_);
  for (int64_t next = 1; next < ranks; ++next) {
    DistributedSamplerOptions other = options_;
    other.rank += next;
    const std::vector<int64_t> share = SelectShare(all, other);
    indices.insert(indices.end(), share.begin(), share.end());
  }
  return indices;
}

std::vector<int64_t> DistributedSampler::IndicesWithoutPadding() const {
  std::vector<int64_t> indices = Indices();
  indices.resize(share_.real);
  return indices;
}

SamplerState DistributedSampler::state(int64_t taken) const {
  return {.epoch = epoch_,
          .samples = taken * options_.num_replicas,
          .seed = options_.seed,
          .dataset_size = options_.dataset_size,
          .shuffle = options_.shuffle,
          .group_size = GroupSizeOf(options_)};
}

void DistributedSampler::Restore(const SamplerState& state) {
  const auto refuse = [](std::string what) {
    throw Failure(Error{.code = Code::kStateDoesNotFit,
                        .title = "SAVED POSITION DOES NOT FIT",
                        .what = std::move(what),
                        .hint = "Go on with the data, seed and batch sizes of the saved run, or "
                                "begin a new one.",
                        .page = "saved-position"});
  };
  if (state.dataset_size != options_.dataset_size || state.seed != options_.seed) {
    refuse("The saved run had " + std::to_string(state.dataset_size) + " samples in the order of " +
           "seed " + std::to_string(state.seed) + "; here are " +
           std::to_string(options_.dataset_size) + " with seed " + std::to_string(options_.seed) +
           ".");
  }
  if (state.shuffle != options_.shuffle || state.group_size != GroupSizeOf(options_)) {
    refuse("The saved run took its samples by " + OrderText(state.shuffle, state.group_size) +
           "; here they are taken by " + OrderText(options_.shuffle, GroupSizeOf(options_)) + ".");
  }
  if (state.epoch < 0 || state.samples < 0 || state.samples % options_.num_replicas != 0 ||
      state.samples / options_.num_replicas > share_.size) {
    const std::string ranks = std::to_string(options_.num_replicas);
    refuse("The saved run is at sample " + std::to_string(state.samples) + " of epoch " +
           std::to_string(state.epoch) + ". With " + ranks +
           " ranks, the sample must be a multiple of " + ranks + " from 0 to " +
           std::to_string(share_.size * options_.num_replicas) + ".");
  }
  epoch_ = state.epoch;
  taken_ = state.samples / options_.num_replicas;
}

}  // namespace ddprun
