#include "trainer/models/gpt.h"

#include <ATen/ops/embedding.h>

#include <cmath>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/compute/operations.h"
#include "trainer/models/causal_model.h"

// B batch, L length, N = B * L, C width (hidden_size), H heads, D = C / H, V vocabulary.
namespace ddprun::trainer {

namespace {

constexpr double kGptDeviation = 0.02;  // initializer_range of GPT2Config

struct GptBlock {
  Affine ln_1, c_attn, attn_proj, ln_2, c_fc, mlp_proj;
};

class Gpt final : public CausalModel {
 public:
  explicit Gpt(const GptOptions& options)
      : CausalModel(options.vocab_size),
        options_(options),
        gelu_(GeluFromName(options.hidden_act)) {
    const int64_t width = options.hidden_size;
    wte_ = AddWordVectors("transformer.wte", options.vocab_size, width);
    wpe_ = AddParameter("transformer.wpe.weight", {options.max_position_embeddings, width});
    for (int64_t i = 0; i < options.num_hidden_layers; ++i) {
      blocks_.push_back(AddBlock("transformer.h." + std::to_string(i) + "."));
    }
    ln_f_ = AddNorm("transformer.ln_f", width);
    lm_head_module_ = options.tie_word_embeddings ? "transformer.wte" : "lm_head";
    lm_head_ =
        options.tie_word_embeddings ? wte_ : AddWordVectors("lm_head", options.vocab_size, width);
  }

  int64_t context_length() const override { return options_.max_position_embeddings; }
  std::string ConfigJson() const override;
  std::optional<std::string> ParameterFor(const std::string& stored_name) const override;

  void InitializeParameter(const std::string& parameter, at::Tensor& value) const override {
    if (parameter.ends_with(".bias")) {
      value.zero_();
    } else if (parameter.find(".ln_") != parameter.npos) {
      value.fill_(1.0);
    } else if (parameter.ends_with(".c_proj.weight")) {
      // The residual stream sums this many projections.
      const auto projections = 2.0 * static_cast<double>(options_.num_hidden_layers);
      value.normal_(0.0, kGptDeviation / std::sqrt(projections));
    } else {
      value.normal_(0.0, kGptDeviation);
    }
  }

 private:
  GptBlock AddBlock(const std::string& prefix) {
    const int64_t width = options_.hidden_size;
    GptBlock block;
    block.ln_1 = AddNorm(prefix + "ln_1", width);
    block.c_attn = AddConv1d(prefix + "attn.c_attn", width, 3 * width, Split::kOutputs, 3);
    block.attn_proj = AddConv1d(prefix + "attn.c_proj", width, width, Split::kInputs);
    block.ln_2 = AddNorm(prefix + "ln_2", width);
    block.c_fc = AddConv1d(prefix + "mlp.c_fc", width, options_.inner_size(), Split::kOutputs);
    block.mlp_proj = AddConv1d(prefix + "mlp.c_proj", options_.inner_size(), width, Split::kInputs);
    return block;
  }

  // transformers' Conv1D is a linear layer whose weight is stored [in, out].
  Affine AddConv1d(
      const std::string& name, int64_t in, int64_t out, Split split, int64_t fused = 1) {
    return AddLinear(name, in, out,
                     {.split = split, .layout = WeightLayout::kInOut, .fused = fused});
  }

  double InTraining(double probability) const { return is_training() ? probability : 0.0; }
  at::Tensor Drop(const at::Tensor& x, double probability) const {
    return DropElements(x, InTraining(probability));
  }
  NormLayer Norm(const Affine& layer) const {
    return LayerNormOf(layer, options_.layer_norm_epsilon);
  }

  // Uses two dimensions in all layers, so that every product is one addmm.
  std::vector<Stage> HiddenStages(const at::Tensor& inputs,
                                  const CausalView& view,
                                  KeyValueCache* cache) const override {
    const int64_t length = inputs.size(1);
    const int64_t before = cache == nullptr ? 0 : cache->length();
    CheckLength(before + length, options_.max_position_embeddings);
    const auto embed = [=, this](const at::Tensor& ids) {
      const at::Tensor places = view.positions.defined() ? at::embedding(wpe_, view.positions)
                                                         : wpe_.narrow(0, before, length);
      return Drop(Embedding(ids, wte_) + places, options_.embedding_dropout)
          .view({-1, options_.hidden_size});
    };
    std::vector<Stage> stages = {{{"transformer.wte", "transformer.wpe"}, embed}};
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const auto forward = [=, this](const at::Tensor& x) {
        const GptBlock& block = blocks_[i];
        const auto [residual, normed] = NormOfSum(x, {}, Norm(block.ln_1));
        const at::Tensor mixed = Mix(normed, i, length, view, cache);
        const ResidualAndNorm seen = NormOfSum(residual, mixed, Norm(block.ln_2));
        const at::Tensor inner = ApplyGelu(Linear(seen.normed, block.c_fc), gelu_);
        return seen.residual + Drop(Linear(inner, block.mlp_proj), options_.dropout);
      };
      stages.push_back({{"transformer.h." + std::to_string(i)}, forward, /*is_block=*/true});
    }
    stages.push_back({{"transformer.ln_f"},
                      [this](const auto& x) { return NormOfSum(x, {}, Norm(ln_f_)).normed; }});
    return stages;
  }

  // Causal self-attention, [N, C] -> [N, C].
  at::Tensor Mix(const at::Tensor& x,
                 size_t index,
                 int64_t length,
                 const CausalView& view,
                 KeyValueCache* cache) const {
    const GptBlock& block = blocks_[index];
    const int64_t heads = OwnCount(options_.num_attention_heads);
    const int64_t width = options_.hidden_size / options_.num_attention_heads;
    const auto qkv = Linear(x, block.c_attn).view({-1, length, 3, heads, width}).unbind(2);
    std::pair<at::Tensor, at::Tensor> seen = {qkv[1].transpose(1, 2), qkv[2].transpose(1, 2)};
    if (cache != nullptr) seen = cache->Extend(index, seen.first, seen.second);
    // A single token sees all tokens before it, so it needs no causal mask.
    const at::Tensor mixed = Attention(qkv[0].transpose(1, 2), seen.first, seen.second,
                                       {.mask = view.mask,
                                        .texts = view.texts,
                                        .causal = length > 1,
                                        .dropout = InTraining(options_.attention_dropout),
                                        .axis = axis()});
    return Drop(Linear(mixed, block.attn_proj), options_.dropout);
  }

  const GptOptions options_;
  const Gelu gelu_;
  WordVectors wte_;
  at::Tensor wpe_;  // [max_position_embeddings, C]
  std::vector<GptBlock> blocks_;
  Affine ln_f_;
};

std::string Gpt::ConfigJson() const {
  // bos and eos are null: a byte-level text has no such tokens, and GPT2Config's default 50256
  // would lie outside the vocabulary.
  const nlohmann::ordered_json config = {{"architectures", {"GPT2LMHeadModel"}},
                                         {"model_type", "gpt2"},
                                         {"vocab_size", options_.vocab_size},
                                         {"n_positions", options_.max_position_embeddings},
                                         {"n_embd", options_.hidden_size},
                                         {"n_layer", options_.num_hidden_layers},
                                         {"n_head", options_.num_attention_heads},
                                         {"n_inner", options_.inner_size()},
                                         {"activation_function", options_.hidden_act},
                                         {"embd_pdrop", options_.embedding_dropout},
                                         {"attn_pdrop", options_.attention_dropout},
                                         {"resid_pdrop", options_.dropout},
                                         {"layer_norm_epsilon", options_.layer_norm_epsilon},
                                         {"initializer_range", kGptDeviation},
                                         {"tie_word_embeddings", options_.tie_word_embeddings},
                                         {"bos_token_id", nullptr},
                                         {"eos_token_id", nullptr},
                                         {"torch_dtype", "float32"}};
  return config.dump(2) + "\n";
}

std::optional<std::string> Gpt::ParameterFor(const std::string& stored_name) const {
  // Skips the causal mask that older transformers saved.
  if (stored_name.ends_with(".attn.bias") || stored_name.ends_with(".attn.masked_bias")) {
    return std::nullopt;
  }
  if (stored_name == "lm_head.weight") {
    // If tied, skips it, because the file also has it under the embedding's name.
    return options_.tie_word_embeddings ? std::nullopt : std::optional(stored_name);
  }
  // Files saved from GPT2Model, such as the published gpt2, lack the prefix.
  return stored_name.starts_with("transformer.") ? stored_name : "transformer." + stored_name;
}

}  // namespace

std::shared_ptr<LanguageModel> MakeGpt(const GptOptions& options) {
  CheckSizes("gpt", options, /*others_fit=*/true, "");
  return std::make_shared<Gpt>(options);
}

}  // namespace ddprun::trainer
