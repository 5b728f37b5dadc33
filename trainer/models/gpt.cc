#include "trainer/models/gpt.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <cmath>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/failure.h"

// B batch, L length, N = B * L, C width (n_embd), H heads, D = C / H, V vocabulary.
namespace ddprun::trainer {

namespace {

constexpr double kInitialDeviation = 0.02;  // initializer_range of GPT2Config
constexpr double kLayerNormEpsilon = 1e-5;  // layer_norm_epsilon of GPT2Config

struct Affine {
  at::Tensor weight;
  at::Tensor bias;
};

struct Block {
  Affine ln_1, c_attn, attn_proj, ln_2, c_fc, mlp_proj;
};

class Gpt final : public LanguageModel {
 public:
  explicit Gpt(const GptOptions& options) : options_(options) {
    const int64_t width = options.n_embd;
    wte_ = AddParameter("transformer.wte.weight", {options.vocab_size, width});
    wpe_ = AddParameter("transformer.wpe.weight", {options.n_positions, width});
    for (int64_t i = 0; i < options.n_layer; ++i) {
      blocks_.push_back(AddBlock("transformer.h." + std::to_string(i) + "."));
    }
    ln_f_ = AddLayerNorm("transformer.ln_f");
    if (options.initialize) Initialize();
  }

  at::Tensor Outputs(const Batch& batch) override { return Logits(batch.inputs); }

  at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) override {
    return at::cross_entropy_loss(outputs.view({-1, options_.vocab_size}),
                                  batch.targets.reshape({-1}));
  }

  at::Tensor Logits(const at::Tensor& inputs) override {
    return at::linear(Hidden(inputs), wte_)
        .view({inputs.size(0), inputs.size(1), options_.vocab_size});
  }

  int64_t context_length() const override { return options_.n_positions; }
  int64_t vocab_size() const override { return options_.vocab_size; }
  std::string ConfigJson() const override;
  std::optional<std::string> ParameterFor(const std::string& stored_name) const override;

 private:
  Block AddBlock(const std::string& prefix) {
    const int64_t width = options_.n_embd;
    Block block;
    block.ln_1 = AddLayerNorm(prefix + "ln_1");
    block.c_attn = AddConv1d(prefix + "attn.c_attn", width, 3 * width);
    block.attn_proj = AddConv1d(prefix + "attn.c_proj", width, width);
    block.ln_2 = AddLayerNorm(prefix + "ln_2");
    block.c_fc = AddConv1d(prefix + "mlp.c_fc", width, options_.n_inner);
    block.mlp_proj = AddConv1d(prefix + "mlp.c_proj", options_.n_inner, width);
    return block;
  }

  Affine AddLayerNorm(const std::string& name) {
    const int64_t width = options_.n_embd;
    return {AddParameter(name + ".weight", {width}), AddParameter(name + ".bias", {width})};
  }

  // transformers' Conv1D is a linear layer whose weight is stored [in, out].
  Affine AddConv1d(const std::string& name, int64_t in, int64_t out) {
    return {AddParameter(name + ".weight", {in, out}), AddParameter(name + ".bias", {out})};
  }

  void Initialize() {
    const at::NoGradGuard no_grad;
    // The residual stream sums 2 * n_layer projections.
    const double residual =
        kInitialDeviation / std::sqrt(2.0 * static_cast<double>(options_.n_layer));
    wte_.normal_(0.0, kInitialDeviation);
    wpe_.normal_(0.0, kInitialDeviation);
    for (Block& block : blocks_) {
      InitializeLayerNorm(block.ln_1);
      InitializeConv1d(block.c_attn, kInitialDeviation);
      InitializeConv1d(block.attn_proj, residual);
      InitializeLayerNorm(block.ln_2);
      InitializeConv1d(block.c_fc, kInitialDeviation);
      InitializeConv1d(block.mlp_proj, residual);
    }
    InitializeLayerNorm(ln_f_);
  }

  static void InitializeLayerNorm(Affine& layer) {
    layer.weight.fill_(1.0);
    layer.bias.zero_();
  }

  static void InitializeConv1d(Affine& layer, double deviation) {
    layer.weight.normal_(0.0, deviation);
    layer.bias.zero_();
  }

  at::Tensor Dropout(const at::Tensor& x) const {
    return options_.dropout > 0 ? at::dropout(x, options_.dropout, is_training()) : x;
  }

  at::Tensor LayerNorm(const at::Tensor& x, const Affine& layer) const {
    return at::layer_norm(x, {options_.n_embd}, layer.weight, layer.bias, kLayerNormEpsilon);
  }

  static at::Tensor Linear(const at::Tensor& x, const Affine& layer) {
    return at::addmm(layer.bias, x, layer.weight);
  }

  // [B, L] -> [N, C]. Two dimensions all the way, so that every product is one addmm.
  at::Tensor Hidden(const at::Tensor& inputs) {
    const int64_t length = inputs.size(1);
    CheckLength(length);
    at::Tensor x = at::embedding(wte_, inputs) + wpe_.narrow(0, 0, length);
    x = Dropout(x).view({-1, options_.n_embd});
    for (const Block& block : blocks_) {
      x = x + Attention(LayerNorm(x, block.ln_1), block, inputs.size(0), length);
      const at::Tensor inner = at::gelu(Linear(LayerNorm(x, block.ln_2), block.c_fc), "tanh");
      x = x + Dropout(Linear(inner, block.mlp_proj));
    }
    return LayerNorm(x, ln_f_);
  }

  at::Tensor Attention(const at::Tensor& x, const Block& block, int64_t batch, int64_t length) {
    const int64_t heads = options_.n_head;
    const auto qkv =
        Linear(x, block.c_attn).view({batch, length, 3, heads, options_.n_embd / heads}).unbind(2);
    const at::Tensor mixed = at::scaled_dot_product_attention(
        qkv[0].transpose(1, 2), qkv[1].transpose(1, 2), qkv[2].transpose(1, 2),
        /*attn_mask=*/{}, is_training() ? options_.dropout : 0.0,
        /*is_causal=*/true);
    // [B, H, L, D] -> [N, C]
    return Dropout(Linear(mixed.transpose(1, 2).reshape({-1, options_.n_embd}), block.attn_proj));
  }

  void CheckLength(int64_t length) const {
    if (length <= options_.n_positions) return;
    throw Failure(Error{.code = Code::kUsage,
                        .title = "SEQUENCE TOO LONG",
                        .where = "",
                        .what = "The batch has sequences of " + std::to_string(length) +
                                " tokens; this model takes at most " +
                                std::to_string(options_.n_positions) + ".",
                        .hint = "Make data.max_seq_length smaller.",
                        .page = "sequence-too-long"});
  }

  const GptOptions options_;
  at::Tensor wte_;  // [V, C], also the output layer
  at::Tensor wpe_;  // [n_positions, C]
  std::vector<Block> blocks_;
  Affine ln_f_;
};

std::string Gpt::ConfigJson() const {
  // bos and eos are null: a byte-level text has no such tokens, and GPT2Config's default 50256
  // would lie outside the vocabulary.
  const nlohmann::ordered_json config = {{"architectures", {"GPT2LMHeadModel"}},
                                         {"model_type", "gpt2"},
                                         {"vocab_size", options_.vocab_size},
                                         {"n_positions", options_.n_positions},
                                         {"n_embd", options_.n_embd},
                                         {"n_layer", options_.n_layer},
                                         {"n_head", options_.n_head},
                                         {"n_inner", options_.n_inner},
                                         {"activation_function", "gelu_new"},
                                         {"embd_pdrop", options_.dropout},
                                         {"attn_pdrop", options_.dropout},
                                         {"resid_pdrop", options_.dropout},
                                         {"layer_norm_epsilon", kLayerNormEpsilon},
                                         {"initializer_range", kInitialDeviation},
                                         {"tie_word_embeddings", true},
                                         {"bos_token_id", nullptr},
                                         {"eos_token_id", nullptr},
                                         {"torch_dtype", "float32"}};
  return config.dump(2) + "\n";
}

std::optional<std::string> Gpt::ParameterFor(const std::string& stored_name) const {
  // The causal mask of older transformers, and the output layer, which is the embedding.
  if (stored_name.ends_with(".attn.bias") || stored_name.ends_with(".attn.masked_bias") ||
      stored_name == "lm_head.weight") {
    return std::nullopt;
  }
  // Files saved from GPT2Model, such as the published gpt2, lack the prefix.
  return stored_name.starts_with("transformer.") ? stored_name : "transformer." + stored_name;
}

}  // namespace

std::shared_ptr<LanguageModel> MakeGpt(const GptOptions& options) {
  GptOptions resolved = options;
  if (resolved.n_inner == 0) resolved.n_inner = 4 * resolved.n_embd;
  const bool positive = resolved.vocab_size > 0 && resolved.n_positions > 0 &&
                        resolved.n_embd > 0 && resolved.n_layer > 0 && resolved.n_head > 0 &&
                        resolved.n_inner > 0;
  if (positive && resolved.n_embd % resolved.n_head == 0) return std::make_shared<Gpt>(resolved);
  throw Failure(Error{.code = Code::kUsage,
                      .title = "WRONG MODEL SIZE",
                      .where = "",
                      .what = "A gpt model was asked for with hidden_size " +
                              std::to_string(options.n_embd) + ", num_attention_heads " +
                              std::to_string(options.n_head) + ", num_hidden_layers " +
                              std::to_string(options.n_layer) + ", vocab_size " +
                              std::to_string(options.vocab_size) + ", " +
                              std::to_string(options.n_positions) + " positions; all must be " +
                              "positive, and hidden_size a multiple of num_attention_heads.",
                      .hint = "Correct the model section of the config.",
                      .page = "model-size"});
}

}  // namespace ddprun::trainer
