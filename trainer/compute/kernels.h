// Loops over plain memory that LibTorch has no fast form of. Each is compiled for several
// instruction sets; the widest that this processor has is taken, and all give the same bits. T is
// float or c10::BFloat16; arithmetic is in float. Any thread.
#pragma once

#include <cstdint>

namespace ddprun::trainer {

// One reproducible stream of random numbers: number i depends on the key and i only.
struct DropoutStream {
  uint64_t key = 0;
  double drop_probability = 0;  // [0, 1)
};

// output[i] = input[i] / (1 - p), or 0 with probability p, decided by number first + i of the
// stream. input == output is allowed.
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

// One row of a cross-entropy with label smoothing in [0, 1), the share of the target that all
// classes get alike: returns log(sum(exp(logits))) - logits[target], with that share of it replaced
// by the mean over all classes, and replaces the logits by its derivative, times `scale`.
template <typename T>
double CrossEntropyRow(
    T* logits, int64_t classes, int64_t target, float scale, double smoothing = 0);

// The sum of squares in double: value i goes to partial sum i % 16, and these are added by halves.
// T is also c10::Half, as CrossEntropyRow's.
template <typename T>
double SumOfSquares(const T* values, int64_t count);

}  // namespace ddprun::trainer
