#include "trainer/models/llama.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>

#include <mutex>
#include <numbers>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/compute/device.h"
#include "trainer/compute/operations.h"
#include "trainer/models/causal_model.h"

// B batch, L length, N = B * L, C width (hidden_size), H heads, K key and value heads, D head_dim,
// V vocabulary.
namespace ddprun::trainer {

namespace {

constexpr double kLlamaDeviation = 0.02;  // initializer_range of LlamaConfig

struct LlamaBlock {
  at::Tensor input_norm;
  Affine query, key, value, output;
  at::Tensor post_attention_norm;
  Affine gate, up, down;
};

// Cosines and sines by position and dimension, [L, D].
struct Rotation {
  at::Tensor cos, sin;
};

// Rotates each pair (i, i + D / 2) of x [B, H, L, D] by its position.
at::Tensor Rotate(const at::Tensor& x, const Rotation& rotation) {
  const auto halves = x.chunk(2, -1);
  const at::Tensor turned = x * rotation.cos + at::cat({-halves[1], halves[0]}, -1) * rotation.sin;
  return turned.to(x.scalar_type());  // also bfloat16, with angles in float32
}

class Llama final : public CausalModel {
 public:
  explicit Llama(const LlamaOptions& options)
      : CausalModel(options.vocab_size),
        options_(options),
        heads_(OwnCount(options.num_attention_heads)),
        groups_(OwnCount(options.num_key_value_heads)) {
    const int64_t width = options.hidden_size;
    embedding_ = AddWordVectors("model.embed_tokens", options.vocab_size, width);
    for (int64_t i = 0; i < options.num_hidden_layers; ++i) {
      blocks_.push_back(AddBlock("model.layers." + std::to_string(i) + "."));
    }
    norm_ = AddParameter("model.norm.weight", {width});
    lm_head_module_ = options.tie_word_embeddings ? "model.embed_tokens" : "lm_head";
    lm_head_ = options.tie_word_embeddings ? embedding_
                                           : AddWordVectors("lm_head", options.vocab_size, width);
    frequencies_ = RotaryFrequencies(options.head_dim, options.rope_theta, options.rope_scaling);
  }

  int64_t context_length() const override { return options_.max_position_embeddings; }
  std::string ConfigJson() const override;
  std::optional<std::string> ParameterFor(const std::string& stored_name) const override;

  void InitializeParameter(const std::string& parameter, at::Tensor& value) const override {
    if (parameter.ends_with("norm.weight")) {
      value.fill_(1.0);
    } else if (parameter.ends_with(".bias")) {
      value.zero_();
    } else {
      value.normal_(0.0, kLlamaDeviation);
    }
  }

 private:
  LlamaBlock AddBlock(const std::string& prefix) {
    const int64_t width = options_.hidden_size;
    const int64_t queries = options_.num_attention_heads * options_.head_dim;
    const int64_t keys = options_.num_key_value_heads * options_.head_dim;
    const std::string attention = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
    LlamaBlock block;
    const LinearOptions in{.bias = options_.attention_bias, .split = Split::kOutputs};
    const LinearOptions out{.bias = options_.attention_bias, .split = Split::kInputs};
    block.query = AddLinear(attention + "q_proj", width, queries, in);
    block.key = AddLinear(attention + "k_proj", width, keys, in);
    block.value = AddLinear(attention + "v_proj", width, keys, in);
    block.output = AddLinear(attention + "o_proj", queries, width, out);
    const LinearOptions up{.bias = options_.mlp_bias, .split = Split::kOutputs};
    block.gate = AddLinear(mlp + "gate_proj", width, options_.inner_size(), up);
    block.up = AddLinear(mlp + "up_proj", width, options_.inner_size(), up);
    block.down = AddLinear(mlp + "down_proj", options_.inner_size(), width,
                           {.bias = options_.mlp_bias, .split = Split::kInputs});
    block.input_norm = AddParameter(prefix + "input_layernorm.weight", {width});
    block.post_attention_norm = AddParameter(prefix + "post_attention_layernorm.weight", {width});
    return block;
  }

  NormLayer Norm(const at::Tensor& weight) const {
    return {.weight = weight, .bias = {}, .epsilon = options_.rms_norm_eps, .centers = false};
  }

  std::vector<Stage> HiddenStages(const at::Tensor& inputs,
                                  const CausalView& view,
                                  KeyValueCache* cache) const override {
    const int64_t length = inputs.size(1);
    const int64_t before = cache == nullptr ? 0 : cache->length();
    CheckLength(before + length, options_.max_position_embeddings);
    const auto embed = [this](const at::Tensor& ids) {
      return Embedding(ids, embedding_, options_.pad_token_id).view({-1, options_.hidden_size});
    };
    std::vector<Stage> stages = {{{"model.embed_tokens"}, embed}};
    const Rotation rotation = RotationOf(before, length, inputs.device());
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const auto forward = [=, this](const at::Tensor& x) {
        const LlamaBlock& block = blocks_[i];
        const auto [residual, normed] = NormOfSum(x, {}, Norm(block.input_norm));
        const at::Tensor mixed = Mix(normed, i, rotation, view, cache);
        const ResidualAndNorm seen = NormOfSum(residual, mixed, Norm(block.post_attention_norm));
        const auto both = Linears(seen.normed, {&block.gate, &block.up});
        return seen.residual + Linear(at::silu(both[0]) * both[1], block.down);
      };
      stages.push_back({{"model.layers." + std::to_string(i)}, forward, /*is_block=*/true});
    }
    stages.push_back(
        {{"model.norm"}, [this](const auto& x) { return NormOfSum(x, {}, Norm(norm_)).normed; }});
    return stages;
  }

  // Returns the frequencies on the device. Copies them when it is first asked for the device.
  at::Tensor FrequenciesOn(c10::Device device) const {
    if (device.is_cpu()) return frequencies_;
    const std::lock_guard lock(mutex_);
    for (const at::Tensor& copy : device_frequencies_) {
      if (copy.device() == device) return copy;
    }
    return device_frequencies_.emplace_back(ToDevice(frequencies_, device));
  }

  // Returns the rotation in the weights' type.
  Rotation RotationOf(int64_t start, int64_t length, c10::Device device) const {
    const at::NoGradGuard no_grad;
    const at::Tensor positions =
        at::arange(start, start + length, at::device(device).dtype(at::kLong)).to(at::kFloat);
    const at::Tensor angles = at::outer(positions, FrequenciesOn(device));
    const at::Tensor both = at::cat({angles, angles}, -1);
    const at::ScalarType type = norm_.scalar_type();
    return {at::cos(both).to(type), at::sin(both).to(type)};
  }

  // Causal self-attention, [N, C] -> [N, C].
  at::Tensor Mix(const at::Tensor& x,
                 size_t index,
                 const Rotation& rotation,
                 const CausalView& view,
                 KeyValueCache* cache) const {
    const LlamaBlock& block = blocks_[index];
    const int64_t length = rotation.cos.size(0);
    const auto split = [&](const at::Tensor& rows, int64_t heads) {
      return rows.view({-1, length, heads, options_.head_dim}).transpose(1, 2);
    };
    const auto rows = Linears(x, {&block.query, &block.key, &block.value});
    const at::Tensor queries = Rotate(split(rows[0], heads_), rotation);
    const at::Tensor keys = Rotate(split(rows[1], groups_), rotation);
    const at::Tensor values = split(rows[2], groups_);
    if (cache != nullptr) {
      const auto [all_keys, all_values] = cache->Extend(index, keys, values);
      if (length == 1) return Linear(OneToken(queries, all_keys, all_values), block.output);
    }
    const at::Tensor mixed = Attention(queries, RepeatHeads(keys), RepeatHeads(values),
                                       {.mask = view.mask,
                                        .texts = view.texts,
                                        .causal = true,
                                        .dropout = is_training() ? options_.attention_dropout : 0.0,
                                        .axis = axis()});
    return Linear(mixed, block.output);
  }

  // Returns attention [B, H * D] of queries [B, H, 1, D] that see every key [B, K, L, D]. Treats
  // the heads that share keys as tokens, so that no key is copied.
  at::Tensor OneToken(const at::Tensor& queries,
                      const at::Tensor& keys,
                      const at::Tensor& values) const {
    const at::Tensor mixed = ScaledDotProduct(
        {.queries = queries.reshape({-1, groups_, heads_ / groups_, options_.head_dim}),
         .keys = keys,
         .values = values,
         .mask = {}});
    return mixed.reshape({-1, heads_ * options_.head_dim});
  }

  // Repeats keys or values for every head: [B, K, L, D] -> [B, H, L, D].
  at::Tensor RepeatHeads(const at::Tensor& x) const {
    const int64_t group = heads_ / groups_;
    if (group == 1) return x;
    const int64_t length = x.size(2);
    return x.unsqueeze(2)
        .expand({-1, -1, group, -1, -1})
        .reshape({-1, heads_, length, options_.head_dim});
  }

  const LlamaOptions options_;
  const int64_t heads_;  // H and K, of this rank
  const int64_t groups_;
  at::Tensor frequencies_;  // float32 [D / 2], on the host
  // Copies on devices, because a recorded step copies nothing from the host.
  mutable std::vector<at::Tensor> device_frequencies_;
  mutable std::mutex mutex_;  // of the copies: stages may run on threads
  WordVectors embedding_;
  std::vector<LlamaBlock> blocks_;
  at::Tensor norm_;  // [C]
};

nlohmann::ordered_json ScalingJson(const RopeScaling& scaling) {
  switch (scaling.type) {
    case RopeScaling::Type::kNone:
      break;
    case RopeScaling::Type::kLinear:
      return {{"rope_type", "linear"}, {"factor", scaling.factor}};
    case RopeScaling::Type::kDynamic:
      return {{"rope_type", "dynamic"}, {"factor", scaling.factor}};
    case RopeScaling::Type::kLlama3:
      return {{"rope_type", "llama3"},
              {"factor", scaling.factor},
              {"low_freq_factor", scaling.low_freq_factor},
              {"high_freq_factor", scaling.high_freq_factor},
              {"original_max_position_embeddings", scaling.original_max_position_embeddings}};
  }
  return nullptr;
}

std::string Llama::ConfigJson() const {
  nlohmann::ordered_json config = {{"architectures", {"LlamaForCausalLM"}},
                                   {"model_type", "llama"},
                                   {"vocab_size", options_.vocab_size},
                                   {"max_position_embeddings", options_.max_position_embeddings},
                                   {"hidden_size", options_.hidden_size},
                                   {"intermediate_size", options_.inner_size()},
                                   {"num_hidden_layers", options_.num_hidden_layers},
                                   {"num_attention_heads", options_.num_attention_heads},
                                   {"num_key_value_heads", options_.num_key_value_heads},
                                   {"head_dim", options_.head_dim},
                                   {"hidden_act", "silu"},
                                   {"rms_norm_eps", options_.rms_norm_eps},
                                   {"rope_theta", options_.rope_theta},
                                   {"rope_scaling", ScalingJson(options_.rope_scaling)},
                                   {"attention_bias", options_.attention_bias},
                                   {"mlp_bias", options_.mlp_bias},
                                   {"attention_dropout", options_.attention_dropout},
                                   {"tie_word_embeddings", options_.tie_word_embeddings},
                                   {"initializer_range", kLlamaDeviation},
                                   {"bos_token_id", nullptr},
                                   {"eos_token_id", nullptr},
                                   {"pad_token_id", nullptr},
                                   {"torch_dtype", "float32"}};
  if (options_.pad_token_id >= 0) config["pad_token_id"] = options_.pad_token_id;
  return config.dump(2) + "\n";
}

std::optional<std::string> Llama::ParameterFor(const std::string& stored_name) const {
  // Skips a constant that older versions saved, too.
  if (stored_name.ends_with(".rotary_emb.inv_freq")) return std::nullopt;
  if (stored_name == "lm_head.weight") {
    // If tied, skips it, because the file also has it under the embedding's name.
    return options_.tie_word_embeddings ? std::nullopt : std::optional(stored_name);
  }
  // Files saved from LlamaModel lack the prefix.
  return stored_name.starts_with("model.") ? stored_name : "model." + stored_name;
}

}  // namespace

std::shared_ptr<LanguageModel> MakeLlama(const LlamaOptions& options) {
  LlamaOptions resolved = options;
  const int64_t heads = options.num_attention_heads;
  int64_t& groups = resolved.num_key_value_heads;
  if (groups == 0) groups = heads;
  const bool own_head_size = options.head_dim > 0;
  if (options.head_dim == 0 && heads > 0) resolved.head_dim = options.hidden_size / heads;
  CheckSizes(
      "llama", resolved,
      resolved.head_dim > 0 && resolved.head_dim % 2 == 0 && groups > 0 && heads % groups == 0,
      ", num_key_value_heads " + std::to_string(groups) +
          " (of which num_attention_heads is a multiple), head_dim " +
          std::to_string(resolved.head_dim) + " (even)",
      own_head_size);
  return std::make_shared<Llama>(resolved);
}

// Computes in float32 and in the order of transformers' modeling_rope_utils.py, because at long
// positions the last bit of a frequency is visible in the logits.
at::Tensor RotaryFrequencies(int64_t head_dim, double theta, const RopeScaling& scaling) {
  const at::Tensor exponents =
      at::arange(0, head_dim, 2, at::kLong).to(at::kFloat) / static_cast<double>(head_dim);
  const at::Tensor frequencies = 1.0 / at::pow(theta, exponents);
  if (scaling.type == RopeScaling::Type::kNone || scaling.type == RopeScaling::Type::kDynamic) {
    return frequencies;
  }
  if (scaling.type == RopeScaling::Type::kLinear) return frequencies / scaling.factor;
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const at::Tensor wavelengths = 2 * std::numbers::pi / frequencies;
  // 1 for short wavelengths, 0 for long ones, and the transition between them.
  const at::Tensor kept = at::clamp((original / wavelengths - scaling.low_freq_factor) /
                                        (scaling.high_freq_factor - scaling.low_freq_factor),
                                    0.0, 1.0);
  return (1.0 - kept) * frequencies / scaling.factor + kept * frequencies;
}

}  // namespace ddprun::trainer
