// Loops over plain memory for which LibTorch has no fast form. Each is compiled for several
// instruction sets with equal bits, and the widest of this processor is used. T is float or
// c10::BFloat16; arithmetic is in float. Any thread.
#pragma once

#include <cstdint>

namespace ddprun::trainer {

// A reproducible stream of random numbers: number i depends only on the key and i.
struct DropoutStream {
  uint64_t key = 0;
  double drop_probability = 0;  // [0, 1)
};

// Sets output[i] to input[i] / (1 - p), or to 0 with probability p, which number first + i of the
// stream decides. `input` may be `output`.
template <typename T>
void DropoutKernel(
    const T* input, T* output, int64_t first, int64_t count, const DropoutStream& stream);

// GELU in its tanh approximation, 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
template <typename T>
void GeluTanhKernel(const T* input, T* output, int64_t count);

// input_gradient[i] = output_gradient[i] * GELU'(input[i]).
template <typename T>
void GeluTanhBackwardKernel(const T* output_gradient,
                            const T* input,
                            T* input_gradient,
                            int64_t count);

// Returns the cross-entropy of one row, log(sum(exp(logits))) - logits[target], and replaces the
// logits by its derivative times `scale`. `smoothing` in [0, 1) is the share of logits[target] that
// the mean over all classes replaces. T may be c10::Half, too.
template <typename T>
double CrossEntropyRow(
    T* logits, int64_t classes, int64_t target, float scale, double smoothing = 0);

// Returns the sum of squares in double: value i goes to partial sum i % 16, and these are added by
// halves. T may be c10::Half, too.
template <typename T>
double SumOfSquares(const T* values, int64_t count);

}  // namespace ddprun::trainer
