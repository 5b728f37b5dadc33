#include "trainer/compute/kernels.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#if defined(__x86_64__) && defined(__GNUC__)
#define DDPRUN_X86_TARGETS 1
#endif

#define DDPRUN_INLINE inline __attribute__((always_inline))

namespace ddprun::trainer {

namespace {

constexpr int64_t kLanes = 16;  // partial sums: as many as a 512-bit register has floats

DDPRUN_INLINE float Load(const float* p) {
  return *p;
}
DDPRUN_INLINE float Load(const c10::BFloat16* p) {
  return std::bit_cast<float>(static_cast<uint32_t>(p->x) << 16);
}
DDPRUN_INLINE float Load(const c10::Half* p) {
  return static_cast<float>(*p);
}
DDPRUN_INLINE void Store(float* p, float value) {
  *p = value;
}
// Rounds to nearest even; NaN stays NaN.
DDPRUN_INLINE void Store(c10::BFloat16* p, float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  p->x = static_cast<uint16_t>(value == value ? rounded : 0x7fc0u);
}

DDPRUN_INLINE void Store(c10::Half* p, float value) {
  *p = value;
}

// exp to 2 ulp, with the usual reduction x = n ln 2 + r and the minimax polynomial of Cephes' expf.
// Below -87.3 it is about 1e-38 although the exact value is smaller; from 88.7 on it is +inf.
DDPRUN_INLINE float Exp(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float limited = x < -87.3f ? -87.3f : (x > 89.0f ? 89.0f : x);
  const float shifted = limited * 1.44269504088896341f + kMagic;
  const float n = shifted - kMagic;
  const float r = (limited - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // 2^n in two factors, because 2^128 is not a float.
  const int32_t exponent = static_cast<int32_t>(n);
  const int32_t half = exponent >> 1;
  const float first = std::bit_cast<float>((half + 127) << 23);
  const float second = std::bit_cast<float>((exponent - half + 127) << 23);
  return p * first * second;
}

constexpr float kSqrtTwoOverPi = 0.7978845608028654f;
constexpr float kCubic = 0.044715f;

// 0.5 (1 + tanh u) = 1 / (1 + exp(-2u))
DDPRUN_INLINE float GeluGate(float x) {
  const float u = kSqrtTwoOverPi * (x + kCubic * x * x * x);
  return 1.0f / (1.0f + Exp(-2.0f * u));
}

// Two rounds of a 32-bit mixing function (Wellons' lowbias32) with a half of the key before each.
DDPRUN_INLINE uint32_t RandomBits(uint32_t index, uint32_t key_low, uint32_t key_high) {
  uint32_t h = index + key_low;
  h = (h ^ (h >> 16)) * 0x21f0aaadu;
  h = (h ^ (h >> 15)) * 0x735a2d97u;
  h = (h ^ (h >> 15)) + key_high;
  h = (h ^ (h >> 16)) * 0x7feb352du;
  h = (h ^ (h >> 15)) * 0x846ca68bu;
  return h ^ (h >> 16);
}

template <typename T>
struct DropoutLoop {
  const T* input;
  T* output;
  int64_t count;
  uint32_t first;  // number of the first element
  uint32_t key_low;
  uint32_t key_high;
  uint32_t first_kept;  // random numbers from here on keep the element
  float scale;

  DDPRUN_INLINE void operator()() const {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t random = RandomBits(first + static_cast<uint32_t>(i), key_low, key_high);
      const float kept = Load(input + i) * scale;
      Store(output + i, random >= first_kept ? kept : 0.0f);
    }
  }
};

template <typename T>
struct GeluLoop {
  const T* input;
  T* output;
  int64_t count;

  DDPRUN_INLINE void operator()() const {
    for (int64_t i = 0; i < count; ++i) {
      const float x = Load(input + i);
      Store(output + i, x * GeluGate(x));
    }
  }
};

template <typename T>
struct GeluBackwardLoop {
  const T* output_gradient;
  const T* input;
  T* input_gradient;
  int64_t count;

  DDPRUN_INLINE void operator()() const {
    for (int64_t i = 0; i < count; ++i) {
      const float x = Load(input + i);
      const float gate = GeluGate(x);
      // d/dx (x s(2u)) = s + 2 x s (1 - s) u'
      const float slope = kSqrtTwoOverPi * (1.0f + 3.0f * kCubic * x * x);
      const float derivative = gate + 2.0f * x * gate * (1.0f - gate) * slope;
      Store(input_gradient + i, Load(output_gradient + i) * derivative);
    }
  }
};

template <typename T>
struct LargestLoop {
  const T* values;
  int64_t count;
  float* result;

  DDPRUN_INLINE void operator()() const {
    float lanes[kLanes];
    for (float& lane : lanes) lane = -std::numeric_limits<float>::infinity();
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int64_t j = 0; j < kLanes; ++j) {
        const float x = Load(values + i + j);
        lanes[j] = x > lanes[j] ? x : lanes[j];
      }
    }
    float largest = *std::max_element(lanes, lanes + kLanes);
    for (; i < count; ++i) largest = std::max(largest, Load(values + i));
    *result = largest;
  }
};

struct Itself {
  DDPRUN_INLINE float operator()(float x) const { return x; }
};

struct ExpAgainst {
  float largest;
  DDPRUN_INLINE float operator()(float x) const { return Exp(x - largest); }
};

// Adds `term` of each value. Partial sums have type Lane.
template <typename Lane, typename T, typename Term>
struct SumLoop {
  const T* values;
  int64_t count;
  Term term;
  double* result;

  DDPRUN_INLINE void operator()() const {
    Lane lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] += term(Load(values + i + j));
    }
    double sum = 0;
    for (const Lane lane : lanes) sum += lane;
    for (; i < count; ++i) sum += term(Load(values + i));
    *result = sum;
  }
};

template <typename T>
struct SoftmaxLoop {
  T* values;
  int64_t count;
  float largest;
  float factor;
  float less;

  DDPRUN_INLINE void operator()() const {
    for (int64_t i = 0; i < count; ++i) {
      Store(values + i, Exp(Load(values + i) - largest) * factor - less);
    }
  }
};

// The square of a float is exact in double, so that a fused multiply-add rounds to the same bits.
template <typename T>
struct SumOfSquaresLoop {
  const T* values;
  int64_t count;
  double* result;

  DDPRUN_INLINE void operator()() const {
    double lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int64_t j = 0; j < kLanes; ++j) {
        const double x = Load(values + i + j);
        lanes[j] += x * x;
      }
    }
    for (; i < count; ++i) {
      const double x = Load(values + i);
      lanes[i % kLanes] += x * x;
    }
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
    }
    *result = lanes[0];
  }
};

#ifdef DDPRUN_X86_TARGETS
template <typename Loop>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))) void
RunAvx512(const Loop& loop) {
  loop();
}
template <typename Loop>
__attribute__((target("avx2"))) void RunAvx2(const Loop& loop) {
  loop();
}
#endif

template <typename Loop>
void Run(const Loop& loop) {
#ifdef DDPRUN_X86_TARGETS
  static const bool avx512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (avx512) return RunAvx512(loop);
  if (avx2) return RunAvx2(loop);
#endif
  loop();
}

}  // namespace

template <typename T>
void DropoutKernel(
    const T* input, T* output, int64_t first, int64_t count, const DropoutStream& stream) {
  constexpr int64_t kPage = int64_t{1} << 32;  // elements that 32 bits can number
  const double p = stream.drop_probability;
  for (int64_t done = 0; done < count;) {
    const int64_t number = first + done;
    const int64_t piece = std::min(count - done, kPage - number % kPage);
    const uint64_t key = stream.key + static_cast<uint64_t>(number / kPage) * 0x9e3779b97f4a7c15u;
    Run(DropoutLoop<T>{input + done, output + done, piece, static_cast<uint32_t>(number),
                       static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32),
                       static_cast<uint32_t>(p * 4294967296.0), static_cast<float>(1 / (1 - p))});
    done += piece;
  }
}

template <typename T>
void GeluTanhKernel(const T* input, T* output, int64_t count) {
  Run(GeluLoop<T>{input, output, count});
}

template <typename T>
void GeluTanhBackwardKernel(const T* output_gradient,
                            const T* input,
                            T* input_gradient,
                            int64_t count) {
  Run(GeluBackwardLoop<T>{output_gradient, input, input_gradient, count});
}

template <typename T>
double CrossEntropyRow(T* logits, int64_t classes, int64_t target, float scale, double smoothing) {
  float largest = 0;
  double sum = 0;
  double scores = 0;
  Run(LargestLoop<T>{logits, classes, &largest});
  Run(SumLoop<float, T, ExpAgainst>{logits, classes, {largest}, &sum});
  if (smoothing > 0) Run(SumLoop<double, T, Itself>{logits, classes, {}, &scores});
  const double kept = 1 - smoothing;
  const double each = smoothing / static_cast<double>(classes);
  const double loss = std::log(sum) + static_cast<double>(largest) -
                      kept * static_cast<double>(Load(logits + target)) - each * scores;
  const double of_target = std::exp(Load(logits + target) - static_cast<double>(largest)) / sum;
  Run(SoftmaxLoop<T>{logits, classes, largest, static_cast<float>(scale / sum),
                     static_cast<float>(scale * each)});
  Store(logits + target, static_cast<float>((of_target - kept - each) * scale));
  return loss;
}

template <typename T>
double SumOfSquares(const T* values, int64_t count) {
  double sum = 0;
  Run(SumOfSquaresLoop<T>{values, count, &sum});
  return sum;
}

template double CrossEntropyRow<c10::Half>(c10::Half*, int64_t, int64_t, float, double);
template double SumOfSquares<c10::Half>(const c10::Half*, int64_t);
#define DDPRUN_INSTANTIATE(T)                                                           \
  template void DropoutKernel<T>(const T*, T*, int64_t, int64_t, const DropoutStream&); \
  template void GeluTanhKernel<T>(const T*, T*, int64_t);                               \
  template void GeluTanhBackwardKernel<T>(const T*, const T*, T*, int64_t);             \
  template double CrossEntropyRow<T>(T*, int64_t, int64_t, float, double);              \
  template double SumOfSquares<T>(const T*, int64_t);
DDPRUN_INSTANTIATE(float)
DDPRUN_INSTANTIATE(c10::BFloat16)
#undef DDPRUN_INSTANTIATE

}  // namespace ddprun::trainer
