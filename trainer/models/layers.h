// The functions on tensors that models share. Any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/compute/operations.h"
#include "trainer/models/lora.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

// Names of one parameter of a model whose head is its embedding: the model has it as `embedding`,
// and state dicts of PyTorch have both.
struct TiedHead {
  std::string_view head = {};
  std::string_view embedding = {};
};

// The options of all transformers. A text in a batch has at most max_position_embeddings tokens.
struct TransformerOptions {
  int64_t vocab_size = 256;
  int64_t max_position_embeddings = 128;
  int64_t hidden_size = 128;
  int64_t num_hidden_layers = 4;
  int64_t num_attention_heads = 4;
  int64_t intermediate_size = 0;  // 0: 4 * hidden_size
  double attention_dropout = 0.0;
  LoraOptions lora = {};

  int64_t inner_size() const { return intermediate_size > 0 ? intermediate_size : 4 * hidden_size; }
  bool operator==(const TransformerOptions&) const = default;
};

// Throws Failure unless the sizes are positive, the heads divide hidden_size equally or have their
// own size, and `others_fit`. `others` describes the other options for the message.
void CheckSizes(const std::string& type,
                const TransformerOptions& sizes,
                bool others_fit,
                const std::string& others,
                bool own_head_size = false);

// Applies a linear layer with its LoRA: x [..., in] -> [..., out]. For a split layer, x or the
// result is this rank's part, according to its Split.
at::Tensor Linear(const at::Tensor& x, const Affine& layer);
// Applies each layer to x. For layers split by outputs and on CUDA, this costs less than single
// calls. REQUIRES: all layers have one Split and one layout.
std::vector<at::Tensor> Linears(const at::Tensor& x, std::initializer_list<const Affine*> layers);
// Looks up ids int64 [...] -> [..., C]. The vector of `padding` is not trained; -1: none.
at::Tensor Embedding(const at::Tensor& ids, const WordVectors& words, int64_t padding = -1);
// Returns the scores of all words: x [N, C] -> [N, V].
at::Tensor Scores(const at::Tensor& x, const WordVectors& words);
// Applies a convolution to x [B, in, H, W], with weight [out, in, k, k]. Inside a PrecisionScope of
// bfloat16 the result is bfloat16.
at::Tensor Convolution(const at::Tensor& x, const Affine& layer, int64_t stride, int64_t padding);
NormLayer LayerNormOf(const Affine& layer, double epsilon);

// Values of a batch that the host needs, even if the batch is on a device.
at::Tensor MaskOnHost(const Batch& batch);  // its attention_mask
int64_t LargestTarget(const Batch& batch);  // 0 without targets

// Returns the mask of keys that a query sees, [B, 1, 1, L], from the attention mask [B, L]: bools,
// or on CUDA numbers of ComputeType() that attention adds to the scores.
// Undefined if no key is masked, because this is faster.
at::Tensor KeyMask(const Batch& batch);
// The keys that a query sees in causal attention. Everything is undefined or empty if the causal
// order alone is enough: without padding, or with padding only after a row's only text, because no
// token of the text sees it.
struct CausalView {
  at::Tensor mask = {};  // [B, 1, L, L], as KeyMask()'s
  // The lengths of the texts of all rows, one after the other, with padding as a text. Only on a
  // CPU, and only if a row has several texts; there is no mask then.
  std::vector<int64_t> texts = {};
  at::Tensor positions = {};  // int64 [B, L], of each token in its text; undefined: in its row
};
CausalView CausalViewOf(const Batch& batch);

struct AttentionOptions {
  at::Tensor mask;                      // undefined: only the causal one, if any
  std::span<const int64_t> texts = {};  // CausalView's: each is attended to alone, causally
  bool causal = false;                  // if the mask is undefined
  double dropout = 0;                   // of the attention probabilities
  const TensorAxis* axis = nullptr;     // the ranks with the other heads, which drop other values
};

// Computes attention: queries, keys and values [B, H, L, D] -> [N, H * D].
at::Tensor Attention(const at::Tensor& queries,
                     const at::Tensor& keys,
                     const at::Tensor& values,
                     const AttentionOptions& options);

// Returns the row of the last token of each text: [B * L, C] -> [B, C].
at::Tensor LastTokenOfEach(const at::Tensor& x, int64_t texts);

// Converts bfloat16 and float16 to float32, for losses. Returns other types unchanged.
at::Tensor WidenToFloat(const at::Tensor& x);

// Returns the mean cross-entropy over the targets that are not -100: scores [N, classes], targets
// int64 [N]. `predictions` is their number; the mean over none is 0. `smoothing`: the part of each
// target that all classes share.
at::Tensor CrossEntropy(const at::Tensor& scores,
                        const at::Tensor& targets,
                        int64_t predictions,
                        double smoothing = 0);

enum class Gelu { kTanh, kErf };
// Returns whether `name` is a GELU in Hugging Face's names: "gelu", "gelu_new" or
// "gelu_pytorch_tanh".
bool IsGelu(const std::string& name);
// REQUIRES: IsGelu(name).
Gelu GeluFromName(const std::string& name);
at::Tensor ApplyGelu(const at::Tensor& x, Gelu kind);

// Throws Failure if a batch is longer than the model's positions.
void CheckLength(int64_t length, int64_t positions);

// Throws Failure: "A `type` model was asked for with `sizes`".
[[noreturn]] void ThrowWrongSize(const std::string& type, const std::string& sizes);

// Initial values of layers, like torch.nn's reset_parameters (torch 2.11), from torch's default
// generator. Call these functions under NoGradGuard.

// Returns the number of inputs of each output, of a `weight` [out, in] or [out, in, height, width].
int64_t FanIn(const at::Tensor& weight);

// Initializes a torch.nn.Linear or torch.nn.Conv2d: bit for bit like Python after the same
// manual_seed, if the layers come in the same order. Ignores an undefined bias.
void InitializeAsTorch(at::Tensor& weight, at::Tensor& bias);

// Does torch.nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu").
void KaimingNormalFanOut(at::Tensor& weight);

// Returns the inputs as float32 [B, C, H, W]. Flat inputs [B, C * H * W] get the shape `image`, {C,
// H, W}, unless it is empty. Throws Failure if the inputs are not such images.
at::Tensor Images(const at::Tensor& inputs, at::IntArrayRef image);

}  // namespace ddprun::trainer
