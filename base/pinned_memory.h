// Host memory that a device reads and writes while the host does other work. libddprun_cuda.so
// (trainer/cuda/module.cc) takes it from CUDA, tests take it for the simulated device.
#pragma once

#include <cstddef>

namespace ddprun {

// For large buffers: takes exactly the requested bytes and frees them. LibTorch's pinned memory
// (at::Tensor::pin_memory) is rounded up to a power of two and never freed.
struct PinnedMemory {
  void* (*take)(size_t bytes) = nullptr;      // returns nullptr if there is not enough
  void (*give_back)(void* memory) = nullptr;  // may wait for the device's queued work
};

}  // namespace ddprun
