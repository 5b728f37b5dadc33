// How many threads and blocks compute rows with the kernels of kernels.cu. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/cuda/kernel_arguments.h"

namespace ddprun::trainer {

constexpr int64_t kThreadNumbers = int64_t{kernels::kPack} * kernels::kThreadPacks;
constexpr int64_t kWidestNorm = kernels::kNormThreads * kThreadNumbers;

struct DeviceSize {
  int64_t processors = 1;
  int64_t cache_bytes = 0;  // of all processors
};

struct LaunchShape {
  int64_t blocks = 1;
  int64_t threads = 32;
};

inline int64_t ThreadsFor(int64_t numbers, int64_t most) {
  const int64_t warps = (numbers + 32 * kThreadNumbers - 1) / (32 * kThreadNumbers);
  return std::clamp<int64_t>(warps * 32, 32, most);
}

// The loss reads each row twice: so many rows at a time that half of the cache holds them.
inline LaunchShape ShapeOfLosses(int64_t rows, int64_t classes, const DeviceSize& device) {
  const int64_t threads = ThreadsFor(classes, kernels::kLossThreads);
  const int64_t row_bytes = classes * static_cast<int64_t>(sizeof(float));
  const int64_t fit = device.cache_bytes / 2 / row_bytes / device.processors;
  const int64_t each = std::clamp<int64_t>(fit, 1, 2048 / threads);
  return {std::min(rows, device.processors * each), threads};
}

inline LaunchShape ShapeOfNorm(int64_t rows, int64_t width, const DeviceSize& device) {
  const int64_t threads = ThreadsFor(width, kernels::kNormThreads);
  return {std::min(rows, device.processors * std::min<int64_t>(32, 2048 / threads)), threads};
}

// Each block leaves a row of gradients of the parameters, which are summed after it: fewer blocks.
inline LaunchShape ShapeOfNormGradients(int64_t rows, int64_t width, const DeviceSize& device) {
  const int64_t threads = ThreadsFor(width, kernels::kNormThreads);
  return {std::min(rows, device.processors * std::max<int64_t>(1, 512 / threads)), threads};
}

}  // namespace ddprun::trainer
