#include "trainer/data/random_dataset.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/randn.h>

#include <string>
#include <vector>

#include "base/failure.h"

namespace ddprun::trainer {

RandomDataset::RandomDataset(const RandomDatasetOptions& options) {
  const int64_t count = options.num_samples;
  if (count <= 0 || options.input_size <= 0 || options.target_size <= 0) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "WRONG SIZE OF RANDOM DATA",
                        .what = "Random data was asked for with " + std::to_string(count) +
                                " samples of " + std::to_string(options.input_size) +
                                " inputs and " + std::to_string(options.target_size) +
                                " targets; all three must be at least 1.",
                        .hint = "Set data.num_samples, data.input_size and data.target_size.",
                        .page = "random-data"});
  }
  inputs_ = at::empty({count, options.input_size}, at::kFloat);
  targets_ = at::empty({count, options.target_size}, at::kFloat);
  // One randn() per sample and side, because torch draws vectors of 16 and more in another order
  // than shorter ones, so one large randn() would give other numbers.
  const at::Generator generator = at::detail::createCPUGenerator(options.seed);
  for (int64_t i = 0; i < count; ++i) {
    inputs_.select(0, i).copy_(at::randn({options.input_size}, generator, at::kFloat));
    targets_.select(0, i).copy_(at::randn({options.target_size}, generator, at::kFloat));
  }
}

Batch RandomDataset::Get(std::span<const int64_t> indices) const {
  const auto count = static_cast<int64_t>(indices.size());
  // from_blob() takes no const pointer; index_select() only reads.
  const at::Tensor index =
      at::from_blob(const_cast<int64_t*>(indices.data()), {count}, at::kLong);  // NOLINT
  return {.inputs = at::index_select(inputs_, 0, index),
          .targets = at::index_select(targets_, 0, index),
          .samples = count,
          .predictions = count};
}

}  // namespace ddprun::trainer
