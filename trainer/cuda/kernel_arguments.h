// What the kernels in kernels.cu and the host that launches them must agree on: sizes of blocks,
// and arguments. NVRTC compiles this file, too: it includes nothing. T is the kernels' type.
#pragma once

namespace ddprun::kernels {

constexpr int kPack = 4;            // numbers that a thread reads or writes at once
constexpr int kThreadPacks = 4;     // of a row, that a thread has in its registers
constexpr int kLossThreads = 1024;  // of a block, at most
constexpr int kNormThreads = 512;   // of a block, at most; more would have too few registers

// The losses of rows of scores and Divisor() times their derivatives (compute/cross_entropy.cc).
struct LossRows {
  const float* scores;  // [rows, classes]; a row begins `score_stride` after the one before
  void* derivatives;    // T, or nullptr; may be the scores
  const long long* targets;
  float* losses;  // [rows]
  long long rows;
  long long score_stride;
  long long stride;
  int classes;
  float smoothing;
};

// y = norm(x + addend) * weight + bias, in rows [rows, width].
struct NormRows {
  const float* x;
  const void* addend;  // T, or nullptr
  const float* weight;
  const float* bias;  // or nullptr
  float* sum;         // x + addend; nullptr without an addend
  void* y;            // T, or nullptr
  float* wide_y;      // y in float32, or nullptr
  float* mean;        // [rows]; 0 unless `centers`
  float* factor;      // [rows], 1 / deviation
  long long rows;
  int width;
  float epsilon;
  int centers;  // LayerNorm; 0: RMSNorm
};

// The gradients of NormRows.
struct NormGradients {
  const float* sum;      // what was normalized
  const void* of_y;      // T, or nullptr
  const float* of_wide;  // or nullptr
  int of_sum;            // `of_wide` is the gradient of `sum`; 0: of `wide_y`
  const float* weight;
  const float* mean;
  const float* factor;
  float* of_x;      // [rows, width]
  void* of_addend;  // T, the same numbers; or nullptr
  float* parts;     // [blocks, 2, width]: of the weight and the bias, by the rows of each block
  long long rows;
  int width;
  int centers;
};

}  // namespace ddprun::kernels
