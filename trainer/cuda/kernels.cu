// The CUDA kernels of ddprun: the loss of a language model, and a residual with its norm. NVRTC
// compiles this file when a rank starts (device_kernels.cc), the C++ compiler for the tests
// (tests/trainer/cuda/kernels_on_cpu.h).
//
// A block of threads computes rows, one after the other. Numbers are read and written in packs of
// four, and are float32 while they are computed with. T: float, Bf16 or Fp16. kernel_shapes.h says
// how many threads and blocks there are.

#include "trainer/cuda/kernel_arguments.h"

using namespace ddprun::kernels;

#ifdef DDPRUN_ONE_THREAD  // a test whose blocks have one thread
constexpr int kWarp = 1;
constexpr int kNormPacks = kThreadPacks * kNormThreads;
#else
constexpr int kWarp = 32;
constexpr int kNormPacks = kThreadPacks;
#endif
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr long long kIgnored = -100;

struct Bf16 {
  unsigned short bits;
};
struct Fp16 {
  unsigned short bits;
};
template <typename T>
struct alignas(kPack * sizeof(T)) Pack {
  T values[kPack];
};

__device__ inline float Infinity() {
  return __uint_as_float(0x7f800000u);
}

__device__ inline float Widen(float value) {
  return value;
}
__device__ inline float Widen(Bf16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}
__device__ inline void Narrow(float value, float& to) {
  to = value;
}
// Rounds to nearest even; NaN stays NaN.
__device__ inline void Narrow(float value, Bf16& to) {
  const unsigned bits = __float_as_uint(value);
  const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  to.bits = static_cast<unsigned short>(value == value ? rounded : 0x7fc0u);
}
#ifdef __CUDACC__
#define DDPRUN_UNROLL _Pragma("unroll")  // so that the numbers of an array are registers
__device__ inline float Widen(Fp16 value) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  return wide;
}
__device__ inline void Narrow(float value, Fp16& to) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(value));
}
#else
#define DDPRUN_UNROLL
__device__ inline float Widen(Fp16 value) {
  return HalfToFloat(value.bits);
}
__device__ inline void Narrow(float value, Fp16& to) {
  to.bits = FloatToHalf(value);
}
#endif

template <typename T>
__device__ inline void Load(const T* from, float (&to)[kPack]) {
  const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(from);
  for (int i = 0; i < kPack; ++i) to[i] = Widen(pack.values[i]);
}
template <typename T>
__device__ inline void Store(const float (&from)[kPack], T* to) {
  Pack<T> pack;
  for (int i = 0; i < kPack; ++i) Narrow(from[i], pack.values[i]);
  *reinterpret_cast<Pack<T>*>(to) = pack;
}
// Loads the `count` numbers that are left of a row, and `rest` for the others.
__device__ inline void LoadSome(const float* from, int count, float rest, float (&to)[kPack]) {
  if (count >= kPack) return Load(from, to);
  DDPRUN_UNROLL
  for (int i = 0; i < kPack; ++i) to[i] = i < count ? from[i] : rest;
}
template <typename T>
__device__ inline void StoreSome(const float (&from)[kPack], int count, T* to) {
  if (count >= kPack) return Store(from, to);
  DDPRUN_UNROLL
  for (int i = 0; i < kPack; ++i) {
    if (i < count) Narrow(from[i], to[i]);
  }
}

struct Add {
  __device__ static float Of(float a, float b) { return a + b; }
  __device__ static float None() { return 0; }
};
struct Largest {
  __device__ static float Of(float a, float b) { return fmaxf(a, b); }
  __device__ static float None() { return -Infinity(); }
};

template <typename Operation, int kCount>
__device__ inline void CombineLanes(float (&values)[kCount]) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    for (float& value : values) {
      value = Operation::Of(value, __shfl_xor_sync(kAllLanes, value, step));
    }
  }
}

// Combines the values of all threads of the block, in the same order in each run; each thread gets
// the results. `shared`: kWarp numbers for each value.
template <typename Operation, int kCount>
__device__ inline void Combine(float (&values)[kCount], float* shared) {
  CombineLanes<Operation>(values);
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (warps == 1) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  __syncthreads();  // every thread has read what was combined before
  if (lane == 0) {
    for (int i = 0; i < kCount; ++i) {
      shared[i * kWarp + static_cast<int>(threadIdx.x) / kWarp] = values[i];
    }
  }
  __syncthreads();
  for (int i = 0; i < kCount; ++i) {
    values[i] = lane < warps ? shared[i * kWarp + lane] : Operation::None();
  }
  CombineLanes<Operation>(values);
}

template <typename T>
__device__ inline void ComputeLosses(const LossRows& a) {
  __shared__ float shared[2 * kWarp];
  const int first = static_cast<int>(threadIdx.x) * kPack;
  const int next = static_cast<int>(blockDim.x) * kPack;
  const float each = a.smoothing / static_cast<float>(a.classes);
  for (long long row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const float* const scores = a.scores + row * a.score_stride;
    T* const out = static_cast<T*>(a.derivatives) + row * a.stride;
    const long long target = a.targets[row];
    if (target == kIgnored) {
      const float zeros[kPack] = {};
      if (threadIdx.x == 0) a.losses[row] = 0;
      for (int i = first; a.derivatives != nullptr && i < a.classes; i += next) {
        StoreSome(zeros, a.classes - i, out + i);
      }
      continue;
    }
    // sum: of exp(score - largest), `largest` being this thread's so far; plain: of the scores.
    float largest = -Infinity();
    float sum = 0;
    float plain = 0;
    for (int begin = first; begin < a.classes; begin += kThreadPacks * next) {
      float x[kThreadPacks][kPack];
      float most = -Infinity();
      DDPRUN_UNROLL
      for (int p = 0; p < kThreadPacks; ++p) {
        LoadSome(scores + begin + p * next, a.classes - begin - p * next, -Infinity(), x[p]);
      }
      DDPRUN_UNROLL
      for (int p = 0; p < kThreadPacks; ++p) {
        for (const float score : x[p]) most = fmaxf(most, score);
      }
      if (most > largest) {
        sum *= expf(largest - most);
        largest = most;
      }
      if (largest == -Infinity()) continue;
      DDPRUN_UNROLL
      for (int p = 0; p < kThreadPacks; ++p) {
        for (int i = 0; i < kPack; ++i) {
          sum += expf(x[p][i] - largest);
          if (begin + p * next + i < a.classes) plain += x[p][i];
        }
      }
    }
    float most[1] = {largest};
    Combine<Largest>(most, shared);
    float sums[2] = {sum * expf(largest - most[0]), plain};
    Combine<Add>(sums, shared);
    const float log_sum = logf(sums[0]);
    const bool counts = target >= 0 && target < a.classes;
    const float of_target = counts ? scores[target] - most[0] - log_sum : Infinity() - Infinity();
    __syncthreads();  // every thread has read the target's score, which may be overwritten
    if (threadIdx.x == 0) {
      const float mean = sums[1] / static_cast<float>(a.classes) - most[0] - log_sum;
      const float smooth = a.smoothing > 0 ? a.smoothing * mean : 0;
      a.losses[row] = -(1 - a.smoothing) * of_target - smooth;
    }
    if (a.derivatives == nullptr) continue;
    // exp(x) - 1 is exact for a target that is almost certain.
    const float exact = expm1f(of_target) + a.smoothing - each;
    const float factor = 1 / sums[0];
    for (int begin = first; begin < a.classes; begin += kThreadPacks * next) {
      float x[kThreadPacks][kPack];
      DDPRUN_UNROLL
      for (int p = 0; p < kThreadPacks; ++p) {
        LoadSome(scores + begin + p * next, a.classes - begin - p * next, -Infinity(), x[p]);
      }
      DDPRUN_UNROLL
      for (int p = 0; p < kThreadPacks; ++p) {
        const int at = begin + p * next;
        for (int i = 0; i < kPack; ++i) {
          x[p][i] = at + i == target ? exact : expf(x[p][i] - most[0]) * factor - each;
        }
        StoreSome(x[p], a.classes - at, out + at);
      }
    }
  }
}

template <typename T>
__device__ inline void ComputeNorm(const NormRows& a) {
  __shared__ float shared[kWarp];
  const float width = static_cast<float>(a.width);
  for (long long row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const long long offset = row * a.width;
    float x[kNormPacks][kPack] = {};
    float mean[1] = {};
    DDPRUN_UNROLL
    for (int p = 0; p < kNormPacks; ++p) {
      const int at = static_cast<int>(threadIdx.x + p * blockDim.x) * kPack;
      if (at >= a.width) continue;
      Load(a.x + offset + at, x[p]);
      if (a.addend != nullptr) {
        float more[kPack];
        Load(static_cast<const T*>(a.addend) + offset + at, more);
        for (int i = 0; i < kPack; ++i) x[p][i] += more[i];
        Store(x[p], a.sum + offset + at);
      }
      for (const float value : x[p]) mean[0] += value;
    }
    if (a.centers) {
      Combine<Add>(mean, shared);
      mean[0] /= width;
    } else {
      mean[0] = 0;
    }
    float squares[1] = {};
    DDPRUN_UNROLL
    for (int p = 0; p < kNormPacks; ++p) {
      if (static_cast<int>(threadIdx.x + p * blockDim.x) * kPack >= a.width) continue;
      for (float& value : x[p]) {
        value -= mean[0];
        squares[0] += value * value;
      }
    }
    Combine<Add>(squares, shared);
    const float factor = 1 / sqrtf(squares[0] / width + a.epsilon);
    if (threadIdx.x == 0) {
      a.mean[row] = mean[0];
      a.factor[row] = factor;
    }
    DDPRUN_UNROLL
    for (int p = 0; p < kNormPacks; ++p) {
      const int at = static_cast<int>(threadIdx.x + p * blockDim.x) * kPack;
      if (at >= a.width) continue;
      float weight[kPack];
      float bias[kPack] = {};
      Load(a.weight + at, weight);
      if (a.bias != nullptr) Load(a.bias + at, bias);
      for (int i = 0; i < kPack; ++i) x[p][i] = x[p][i] * factor * weight[i] + bias[i];
      if (a.y != nullptr) Store(x[p], static_cast<T*>(a.y) + offset + at);
      if (a.wide_y != nullptr) Store(x[p], a.wide_y + offset + at);
    }
  }
}

template <typename T>
__device__ inline void ComputeNormGradients(const NormGradients& a) {
  __shared__ float shared[2 * kWarp];
  float of_weight[kNormPacks][kPack] = {};
  float of_bias[kNormPacks][kPack] = {};
  for (long long row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const long long offset = row * a.width;
    const float mean = a.mean[row];
    const float factor = a.factor[row];
    float x[kNormPacks][kPack] = {};
    float g[kNormPacks][kPack] = {};
    float sums[2] = {};  // of g and of g times the normalized x
    DDPRUN_UNROLL
    for (int p = 0; p < kNormPacks; ++p) {
      const int at = static_cast<int>(threadIdx.x + p * blockDim.x) * kPack;
      if (at >= a.width) continue;
      Load(a.sum + offset + at, x[p]);
      if (a.of_y != nullptr) Load(static_cast<const T*>(a.of_y) + offset + at, g[p]);
      if (a.of_wide != nullptr && !a.of_sum) {
        float more[kPack];
        Load(a.of_wide + offset + at, more);
        for (int i = 0; i < kPack; ++i) g[p][i] += more[i];
      }
      float weight[kPack];
      Load(a.weight + at, weight);
      for (int i = 0; i < kPack; ++i) {
        x[p][i] = (x[p][i] - mean) * factor;
        of_weight[p][i] += g[p][i] * x[p][i];
        of_bias[p][i] += g[p][i];
        g[p][i] *= weight[i];
        sums[0] += g[p][i];
        sums[1] += g[p][i] * x[p][i];
      }
    }
    Combine<Add>(sums, shared);
    const float first = a.centers ? sums[0] / static_cast<float>(a.width) : 0;
    const float second = sums[1] / static_cast<float>(a.width);
    DDPRUN_UNROLL
    for (int p = 0; p < kNormPacks; ++p) {
      const int at = static_cast<int>(threadIdx.x + p * blockDim.x) * kPack;
      if (at >= a.width) continue;
      float more[kPack] = {};
      if (a.of_wide != nullptr && a.of_sum) Load(a.of_wide + offset + at, more);
      for (int i = 0; i < kPack; ++i) {
        g[p][i] = factor * (g[p][i] - first - x[p][i] * second) + more[i];
      }
      Store(g[p], a.of_x + offset + at);
      if (a.of_addend != nullptr) Store(g[p], static_cast<T*>(a.of_addend) + offset + at);
    }
  }
  float* const part = a.parts + static_cast<long long>(blockIdx.x) * 2 * a.width;
  DDPRUN_UNROLL
  for (int p = 0; p < kNormPacks; ++p) {
    const int at = static_cast<int>(threadIdx.x + p * blockDim.x) * kPack;
    if (at >= a.width) continue;
    Store(of_weight[p], part + at);
    Store(of_bias[p], part + a.width + at);
  }
}

// NVRTC gets the type of products, DDPRUN_TYPE; a test has them all.
#define DDPRUN_KERNELS(T)                                                                    \
  extern "C" __global__ void __launch_bounds__(kLossThreads) ddprun_losses_##T(LossRows a) { \
    ComputeLosses<T>(a);                                                                     \
  }                                                                                          \
  extern "C" __global__ void __launch_bounds__(kNormThreads) ddprun_norm_##T(NormRows a) {   \
    ComputeNorm<T>(a);                                                                       \
  }                                                                                          \
  extern "C" __global__ void __launch_bounds__(kNormThreads)                                 \
      ddprun_norm_gradients_##T(NormGradients a) {                                           \
    ComputeNormGradients<T>(a);                                                              \
  }
#ifdef DDPRUN_TYPE
#define DDPRUN_KERNELS_OF(T) DDPRUN_KERNELS(T)
DDPRUN_KERNELS_OF(DDPRUN_TYPE)
#else
DDPRUN_KERNELS(float)
DDPRUN_KERNELS(Bf16)
DDPRUN_KERNELS(Fp16)
#endif
