// The CUDA kernels of trainer/cuda/kernels.cu as functions of the CPU. A block's threads run in one
// thread of the host, one after the other; with DDPRUN_ONE_THREAD a block has one thread.
// Included by one file of a program.
#pragma once

#include <c10/util/Half.h>
#include <ucontext.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/cuda/kernel_arguments.h"

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
namespace on_cpu {

struct Index {
  unsigned x = 0;
};
inline thread_local Index threadIdx, blockIdx, blockDim, gridDim;

// The threads of a block. Each has a stack of its own.
class Block {
 public:
  // Calls `body` as each thread. A warp runs up to the next barrier of the block before another
  // warp does; with `backwards` the last warp and its last thread come first. A barrier that is
  // missing gives other results then.
  void Run(unsigned threads, const std::function<void()>& body, bool backwards) {
    body_ = &body;
    backwards_ = backwards;
    fibers_.resize(threads);
    values_.assign(threads, 0);
    for (Fiber& fiber : fibers_) {
      if (fiber.stack == nullptr) fiber.stack.reset(new char[kStackBytes]);
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = &main_;
      makecontext(&fiber.context, &Block::Begin, 0);
    }
    blockDim.x = threads;
    current = this;
    const unsigned warps = threads / kLanes;
    for (size_t ended = 0; ended == 0;) {
      for (unsigned i = 0; i < warps; ++i) RunWarp(backwards ? warps - 1 - i : i);
      for (const Fiber& fiber : fibers_) ended += fiber.waits_for == WaitsFor::kNothing ? 1 : 0;
      if (ended == 0 || ended == threads) continue;
      std::fprintf(stderr, "%zu of %u threads did not come to a barrier\n", ended, threads);
      std::abort();
    }
  }

  void WaitForBlock() { Wait(WaitsFor::kBlock); }

  float Exchange(float value, unsigned step) {
    values_[threadIdx.x] = value;
    Wait(WaitsFor::kWarp);
    const float other = values_[threadIdx.x ^ step];
    Wait(WaitsFor::kWarp);
    return other;
  }

  static inline thread_local Block* current = nullptr;

 private:
  static constexpr size_t kStackBytes = 64 << 10;
  static constexpr unsigned kLanes = 32;
  enum class WaitsFor { kNothing, kWarp, kBlock };
  struct Fiber {
    ucontext_t context = {};
    std::unique_ptr<char[]> stack = {};
    WaitsFor waits_for = WaitsFor::kNothing;  // kNothing: it has ended
  };

  // Runs the warp until its threads wait for the block, or have ended.
  void RunWarp(unsigned warp) {
    for (size_t at_warp = kLanes; at_warp > 0;) {
      at_warp = 0;
      for (unsigned i = 0; i < kLanes; ++i) {
        threadIdx.x = warp * kLanes + (backwards_ ? kLanes - 1 - i : i);
        Fiber& fiber = fibers_[threadIdx.x];
        swapcontext(&main_, &fiber.context);
        at_warp += fiber.waits_for == WaitsFor::kWarp ? 1 : 0;
      }
      if (at_warp == 0 || at_warp == kLanes) continue;
      std::fprintf(stderr, "%zu of %u lanes exchange values\n", at_warp, kLanes);
      std::abort();
    }
  }

  void Wait(WaitsFor what) {
    const Index self = threadIdx;
    fibers_[self.x].waits_for = what;
    swapcontext(&fibers_[self.x].context, &main_);
    threadIdx = self;
  }

  static void Begin() {
    Block* const self = current;
    const unsigned thread = threadIdx.x;
    (*self->body_)();
    self->fibers_[thread].waits_for = WaitsFor::kNothing;
  }

  const std::function<void()>* body_ = nullptr;
  bool backwards_ = false;
  ucontext_t main_ = {};
  std::vector<Fiber> fibers_;
  std::vector<float> values_;
};

inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
inline float HalfToFloat(unsigned short bits) {
  return c10::detail::fp16_ieee_to_fp32_value(bits);
}
inline unsigned short FloatToHalf(float value) {
  return c10::detail::fp16_ieee_from_fp32_value(value);
}
#ifdef DDPRUN_ONE_THREAD
inline void __syncthreads() {}
inline float __shfl_xor_sync(unsigned, float value, int) {
  return value;
}
#else
inline void __syncthreads() {
  Block::current->WaitForBlock();
}
inline float __shfl_xor_sync(unsigned, float value, int step) {
  return Block::current->Exchange(value, static_cast<unsigned>(step));
}
#endif

#define __device__
#define __global__
#define __launch_bounds__(threads)
#define __shared__ static thread_local
#include "trainer/cuda/kernels.cu"
#undef __device__
#undef __global__
#undef __launch_bounds__
#undef __shared__

}  // namespace on_cpu
// NOLINTEND(bugprone-reserved-identifier)
