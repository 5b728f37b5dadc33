// The pieces that models share. Functions of tensors: any thread.
// B batch, L length, N = B * L, C width, H heads, D = C / H.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "trainer/models/model.h"

namespace ddprun::trainer {

// What all transformers are told. Their batches have at most max_position_embeddings tokens a text.
struct TransformerOptions {
  int64_t vocab_size = 256;
  int64_t max_position_embeddings = 128;
  int64_t hidden_size = 128;
  int64_t num_hidden_layers = 4;
  int64_t num_attention_heads = 4;
  int64_t intermediate_size = 0;  // 0: 4 * hidden_size
  double attention_dropout = 0.0;

  int64_t inner_size() const { return intermediate_size > 0 ? intermediate_size : 4 * hidden_size; }
  bool operator==(const TransformerOptions&) const = default;
};

// Throws Failure unless the sizes are positive, the heads share hidden_size equally or have a
// size of their own, and `others_fit`; `others`: what else was asked for.
void CheckSizes(const std::string& type,
                const TransformerOptions& sizes,
                bool others_fit,
                const std::string& others,
                bool own_head_size = false);

// x [..., in] -> [..., out]; of a split layer this rank's part of either, as its Split says.
at::Tensor Linear(const at::Tensor& x, const Affine& layer);
// Linear of each, of the same x; of layers split by outputs at less cost than one by one. REQUIRES:
// all are split alike.
std::vector<at::Tensor> Linears(const at::Tensor& x, std::initializer_list<const Affine*> layers);
// ids int64 [...] -> [..., C]; the vector of `padding` is not trained; -1: none.
at::Tensor Embedding(const at::Tensor& ids, const WordVectors& words, int64_t padding = -1);
// x [N, C] -> scores of all words [N, V].
at::Tensor Scores(const at::Tensor& x, const WordVectors& words);
// x [B, in, H, W]; weight [out, in, k, k]. Inside a PrecisionScope of bfloat16 the result is that.
at::Tensor Convolution(const at::Tensor& x, const Affine& layer, int64_t stride, int64_t padding);
at::Tensor LayerNorm(const at::Tensor& x, const Affine& layer, double epsilon);

// What the host must know of a batch that may be on a device.
at::Tensor MaskOnHost(const Batch& batch);  // its attention_mask
int64_t LargestTarget(const Batch& batch);  // 0 without targets

// Which keys a query sees: bool [B, 1, 1, L] from the batch's attention mask [B, L]. Undefined when
// no key is masked, which is faster.
at::Tensor KeyMask(const Batch& batch);
// The same for causal attention: bool [B, 1, L, L]. Undefined when the causal order alone does:
// without padding, and with padding behind the text, which no token of the text sees.
at::Tensor CausalMask(const Batch& batch);

struct AttentionOptions {
  at::Tensor mask;                   // undefined: none but the causal one
  bool causal = false;               // of an undefined mask
  double dropout = 0;                // of the attention probabilities
  const TensorAxis* axis = nullptr;  // who has the other heads, and drops others
};

// Queries, keys and values [B, H, L, D] -> [N, H * D].
at::Tensor Attention(const at::Tensor& queries,
                     const at::Tensor& keys,
                     const at::Tensor& values,
                     const AttentionOptions& options);

// Of the last token of each text: [B * L, C] -> [B, C].
at::Tensor LastOfEach(const at::Tensor& x, int64_t texts);

// bfloat16 and float16 as float32, others as they are: losses are computed so.
at::Tensor AtLeastFloat(const at::Tensor& x);

// The mean over the targets that count, those other than -100: scores [N, classes], targets
// int64 [N]. `predictions` is their number; the mean over none is 0. `smoothing`: share of each
// target that is given to all classes alike.
at::Tensor CrossEntropy(const at::Tensor& scores,
                        const at::Tensor& targets,
                        int64_t predictions,
                        double smoothing = 0);

enum class Gelu { kTanh, kErf };
// "gelu", "gelu_new" or "gelu_pytorch_tanh", as Hugging Face calls them.
bool IsGelu(const std::string& name);
// REQUIRES: IsGelu(name).
Gelu GeluFromName(const std::string& name);
at::Tensor ApplyGelu(const at::Tensor& x, Gelu kind);

// Throws Failure when a batch is longer than the model's positions.
void CheckLength(int64_t length, int64_t positions);

// Throws Failure: "A `type` model was asked for with `sizes`".
[[noreturn]] void ThrowWrongSize(const std::string& type, const std::string& sizes);

// Start values of layers as torch.nn's reset_parameters draws them (torch 2.11), from torch's
// default generator. Call them under NoGradGuard.

// What an output of a layer with this weight sums over: [out, in] or [out, in, height, width].
int64_t FanIn(const at::Tensor& weight);

// torch.nn.Linear's and torch.nn.Conv2d's: bit for bit those of Python after the same manual_seed,
// if the layers come in the same order. An undefined bias is left alone.
void InitializeAsTorch(at::Tensor& weight, at::Tensor& bias);

// torch.nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu").
void KaimingNormalFanOut(at::Tensor& weight);

// The inputs as float32 [B, C, H, W]; flat ones [B, C * H * W] are given the shape `image`, {C, H,
// W}, unless that is empty. Throws Failure when they are no such images.
at::Tensor Images(const at::Tensor& inputs, at::IntArrayRef image);

}  // namespace ddprun::trainer
