// Memory of the host that a device's copies reach by themselves, beside what the host does. CUDA's
// is in libddprun_cuda.so (trainer/cuda/module.cc), that of the simulated device with its tests.
#pragma once

#include <cstddef>

namespace ddprun {

// For what is large: just as much as is asked for, until it is given back. LibTorch's own
// (at::Tensor::pin_memory) is rounded up to a power of two, and kept for later tensors.
struct PinnedMemory {
  void* (*take)(size_t bytes) = nullptr;      // gives nullptr where there is not so much
  void (*give_back)(void* memory) = nullptr;  // may wait for all that the device has to do
};

}  // namespace ddprun
