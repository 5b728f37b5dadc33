#include "trainer/models/layers.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rms_norm.h>

#include "base/check.h"
#include "base/failure.h"
#include "trainer/compute/attention.h"
#include "trainer/compute/elementwise.h"
#include "trainer/compute/linear.h"

namespace ddprun::trainer {

void CheckSizes(const std::string& type,
                const TransformerOptions& sizes,
                bool others_fit,
                const std::string& others,
                bool own_head_size) {
  const bool positive = sizes.vocab_size > 0 && sizes.max_position_embeddings > 0 &&
                        sizes.hidden_size > 0 && sizes.num_hidden_layers > 0 &&
                        sizes.num_attention_heads > 0 && sizes.inner_size() > 0;
  if (positive && others_fit &&
      (own_head_size || sizes.hidden_size % sizes.num_attention_heads == 0)) {
    return;
  }
  const auto text = [](int64_t number) { return std::to_string(number); };
  ThrowWrongSize(type, "hidden_size " + text(sizes.hidden_size) + ", num_attention_heads " +
                           text(sizes.num_attention_heads) + ", num_hidden_layers " +
                           text(sizes.num_hidden_layers) + ", intermediate_size " +
                           text(sizes.intermediate_size) + ", vocab_size " +
                           text(sizes.vocab_size) + ", " + text(sizes.max_position_embeddings) +
                           " positions" + others +
                           "; all must be positive, and hidden_size a multiple of "
                           "num_attention_heads");
}

at::Tensor Linear(const at::Tensor& x, const Affine& layer) {
  return LinearLayer(x, layer.weight, layer.bias);
}

at::Tensor LayerNorm(const at::Tensor& x, const Affine& layer, double epsilon) {
  return at::layer_norm(x, {x.size(-1)}, layer.weight, layer.bias, epsilon);
}

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return at::rms_norm(x, {x.size(-1)}, weight, epsilon);
}

at::Tensor Dropout(const at::Tensor& x, double probability) {
  return DropElements(x, probability);
}

at::Tensor KeyMask(const at::Tensor& attention_mask) {
  if (!attention_mask.defined()) return {};
  const at::Tensor seen = attention_mask != 0;
  if (seen.all().item<bool>()) return {};
  return seen.unsqueeze(1).unsqueeze(1);
}

at::Tensor CausalMask(const at::Tensor& attention_mask) {
  if (!attention_mask.defined()) return {};
  const at::Tensor seen = attention_mask != 0;
  const int64_t length = seen.size(1);
  if ((seen.narrow(1, 1, length - 1) <= seen.narrow(1, 0, length - 1)).all().item<bool>()) {
    return {};
  }
  const auto options = seen.options();
  // A padding token sees itself: a softmax over nothing would not be a number.
  const at::Tensor keys = seen.view({-1, 1, 1, length}).logical_or(at::eye(length, options));
  return keys.logical_and(at::ones({length, length}, options).tril());
}

at::Tensor Attention(const at::Tensor& queries,
                     const at::Tensor& keys,
                     const at::Tensor& values,
                     const AttentionOptions& options) {
  const at::Tensor mixed = ScaledDotProduct({.queries = queries,
                                             .keys = keys,
                                             .values = values,
                                             .mask = options.mask,
                                             .causal = options.causal,
                                             .dropout = options.dropout});
  // [B, H, L, D] -> [N, H * D]
  return mixed.transpose(1, 2).reshape({-1, queries.size(1) * values.size(-1)});
}

at::Tensor LastOfEach(const at::Tensor& x, int64_t texts) {
  return x.view({texts, -1, x.size(-1)}).select(1, -1);
}

at::Tensor CrossEntropy(const at::Tensor& scores,
                        const at::Tensor& targets,
                        int64_t predictions,
                        double smoothing) {
  return at::cross_entropy_loss(scores, targets, /*weight=*/{},
                                predictions > 0 ? at::Reduction::Mean : at::Reduction::Sum,
                                /*ignore_index=*/-100, smoothing);
}

bool IsGelu(const std::string& name) {
  return name == "gelu" || name == "gelu_new" || name == "gelu_pytorch_tanh";
}

Gelu GeluFromName(const std::string& name) {
  DDPRUN_CHECK(IsGelu(name));
  return name == "gelu" ? Gelu::kErf : Gelu::kTanh;
}

at::Tensor ApplyGelu(const at::Tensor& x, Gelu kind) {
  return kind == Gelu::kTanh ? GeluTanh(x) : at::gelu(x);
}

void CheckLength(int64_t length, int64_t positions) {
  if (length <= positions) return;
  throw Failure(
      Error{.code = Code::kUsage,
            .title = "SEQUENCE TOO LONG",
            .where = "",
            .what = "The batch has sequences of " + std::to_string(length) +
                    " tokens; this model takes at most " + std::to_string(positions) + ".",
            .hint = "Make data.max_seq_length smaller, or the samples of your plugin shorter.",
            .page = "sequence-too-long"});
}

void ThrowWrongSize(const std::string& type, const std::string& sizes) {
  throw Failure(Error{.code = Code::kUsage,
                      .title = "WRONG MODEL SIZE",
                      .where = "",
                      .what = "A " + type + " model was asked for with " + sizes + ".",
                      .hint = "Correct the model section of the config.",
                      .page = "model-size"});
}

}  // namespace ddprun::trainer
