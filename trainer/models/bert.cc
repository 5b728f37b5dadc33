#include "trainer/models/bert.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/tanh.h>

#include <algorithm>
#include <bit>
#include <string_view>

#include <nlohmann/json.hpp>

#include "trainer/compute/device.h"
#include "trainer/compute/operations.h"

// B texts, L length of the longest, N tokens without padding, C width (hidden_size).
namespace ddprun::trainer {

namespace {

constexpr double kBertDeviation = 0.02;  // initializer_range of BertConfig

struct BertBlock {
  Affine query, key, value, attention_output, attention_norm, intermediate, output, output_norm;
};

// The tokens of a batch that are computed, one row each: all but padding, because no token sees it.
// The host chooses them, so that it knows their number without waiting for a device.
struct Tokens {
  int64_t texts = 0;   // B
  int64_t length = 0;  // L
  at::Tensor places;   // int64 [N], of the B * L places of the batch; undefined: all of them
  at::Tensor firsts;   // int64 [B], of the N rows; undefined: every L-th row
  at::Tensor mask;     // of attention's keys; see KeyMask()
};

// Rounds up the number of rows, because oneDNN makes a kernel for each new number, which takes as
// long as a small product. The steps are 1/64 to 1/32 of the number, so that there are few kernels.
int64_t RowsFor(int64_t tokens) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(tokens)));
  const int64_t step = std::max<int64_t>(8, power / 32);
  return (tokens + step - 1) / step * step;
}

// On CUDA each layer takes twelve kernels more to leave out padding: about as long as layers of
// usual sizes take for this many tokens.
constexpr int64_t kLeastPaddingOnCuda = 256;

Tokens TokensOf(const Batch& batch) {
  Tokens tokens;
  tokens.texts = batch.inputs.size(0);
  tokens.length = batch.inputs.size(1);
  tokens.mask = KeyMask(batch);
  if (tokens.mask.defined()) {
    at::Tensor computed = MaskOnHost(batch) != 0;
    computed.select(1, 0).fill_(true);
    computed = computed.view({-1});
    const at::Tensor padding = computed.logical_not().nonzero().squeeze(1);
    const int64_t count = computed.numel() - padding.numel();
    const int64_t filling = std::min(RowsFor(count) - count, padding.numel());
    computed.index_fill_(0, padding.narrow(0, 0, filling), true);
    const int64_t least = batch.inputs.is_cuda() ? kLeastPaddingOnCuda : 1;
    if (padding.numel() - filling >= least) tokens.places = computed.nonzero().squeeze(1);
  }
  const c10::Device device = batch.inputs.device();
  if (tokens.places.defined()) {
    const at::Tensor first = tokens.places.remainder(tokens.length) == 0;
    tokens.firsts = ToDevice(first.nonzero().squeeze(1), device);
    tokens.places = ToDevice(tokens.places, device);
  } else if (!device.is_cuda()) {
    tokens.firsts =
        at::arange(0, tokens.texts * tokens.length, tokens.length, batch.inputs.options());
  }
  return tokens;
}

class Bert final : public Model {
 public:
  explicit Bert(const BertOptions& options)
      : options_(options), gelu_(GeluFromName(options.hidden_act)) {
    const int64_t width = options.hidden_size;
    const std::string embeddings = "bert.embeddings.";
    words_ = AddWordVectors(embeddings + "word_embeddings", options.vocab_size, width);
    positions_ = AddParameter(embeddings + "position_embeddings.weight",
                              {options.max_position_embeddings, width});
    types_ =
        AddParameter(embeddings + "token_type_embeddings.weight", {options.type_vocab_size, width});
    embeddings_norm_ = AddNorm(embeddings + "LayerNorm", width);
    for (int64_t i = 0; i < options.num_hidden_layers; ++i) {
      blocks_.push_back(AddBlock("bert.encoder.layer." + std::to_string(i) + "."));
    }
    pooler_ = AddLinear("bert.pooler.dense", width, width);
    classifier_ = AddLinear("classifier", width, options.num_labels);
  }

  std::vector<Stage> Stages(const Batch& batch) const override {
    const Tokens tokens = TokensOf(batch);
    const auto embed = [=, this](const at::Tensor& /*inputs*/) { return Embed(batch, tokens); };
    std::vector<Stage> stages = {{{"bert.embeddings"}, embed}};
    for (size_t i = 0; i < blocks_.size(); ++i) {
      // The last layer computes only the first tokens, [CLS], because they represent the texts.
      const auto forward = [=, this](const at::Tensor& x) {
        return Layer(x, blocks_[i], tokens, i + 1 == blocks_.size());
      };
      stages.push_back({{"bert.encoder.layer." + std::to_string(i)}, forward, /*is_block=*/true});
    }
    const auto classify = [this](const at::Tensor& x) {
      const at::Tensor pooled = at::tanh(Linear(x, pooler_));
      return Linear(Drop(pooled, options_.classifier_dropout), classifier_);
    };
    stages.push_back({{"bert.pooler", "classifier"}, classify});
    return stages;
  }

  at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) override {
    LossOptions options = loss_;
    options.kind = options_.num_labels == 1 ? Loss::kMse : Loss::kCrossEntropy;
    return LossOf(options, outputs, batch, is_training());
  }

  std::string ConfigJson() const override;
  std::optional<std::string> ParameterFor(const std::string& stored_name) const override;

  bool MayBeMissingInFile(const std::string& parameter) const override {
    return parameter.starts_with("classifier.") || parameter.starts_with("bert.pooler.");
  }

  void InitializeParameter(const std::string& parameter, at::Tensor& value) const override {
    if (parameter.ends_with("LayerNorm.weight")) {
      value.fill_(1.0);
    } else if (parameter.ends_with(".bias")) {
      value.zero_();
    } else {
      value.normal_(0.0, kBertDeviation);
      if (parameter.ends_with("word_embeddings.weight") && options_.pad_token_id >= 0) {
        value.select(0, options_.pad_token_id).zero_();
      }
    }
  }

 private:
  BertBlock AddBlock(const std::string& prefix) {
    const int64_t width = options_.hidden_size;
    const LinearOptions by_outputs{.split = Split::kOutputs};
    const LinearOptions by_inputs{.split = Split::kInputs};
    BertBlock block;
    block.query = AddLinear(prefix + "attention.self.query", width, width, by_outputs);
    block.key = AddLinear(prefix + "attention.self.key", width, width, by_outputs);
    block.value = AddLinear(prefix + "attention.self.value", width, width, by_outputs);
    block.attention_output = AddLinear(prefix + "attention.output.dense", width, width, by_inputs);
    block.attention_norm = AddNorm(prefix + "attention.output.LayerNorm", width);
    block.intermediate =
        AddLinear(prefix + "intermediate.dense", width, options_.inner_size(), by_outputs);
    block.output = AddLinear(prefix + "output.dense", options_.inner_size(), width, by_inputs);
    block.output_norm = AddNorm(prefix + "output.LayerNorm", width);
    return block;
  }

  double InTraining(double probability) const { return is_training() ? probability : 0.0; }
  at::Tensor Drop(const at::Tensor& x, double probability) const {
    return DropElements(x, InTraining(probability));
  }
  NormLayer Norm(const Affine& layer) const { return LayerNormOf(layer, options_.layer_norm_eps); }

  // [N, C]
  at::Tensor Embed(const Batch& batch, const Tokens& tokens) const {
    const int64_t length = batch.inputs.size(1);
    CheckLength(length, options_.max_position_embeddings);
    const auto of_tokens = [&](const at::Tensor& ids) {
      const at::Tensor all = ids.reshape({-1});
      return tokens.places.defined() ? all.index_select(0, tokens.places) : all;
    };
    const at::Tensor types = batch.token_type_ids.defined()
                                 ? at::embedding(types_, of_tokens(batch.token_type_ids))
                                 : types_.select(0, 0);
    const at::Tensor x = Embedding(of_tokens(batch.inputs), words_, options_.pad_token_id) + types;
    const auto with_positions = [&] {
      if (!tokens.firsts.defined()) {
        return (x.view({tokens.texts, length, -1}) + positions_.narrow(0, 0, length)).view_as(x);
      }
      const at::Tensor positions = at::arange(length, batch.inputs.options());
      return x + at::embedding(positions_, of_tokens(positions.expand_as(batch.inputs)));
    };
    const at::Tensor sum = with_positions();
    return Drop(NormedSum(sum, {}, Norm(embeddings_norm_), /*for_products=*/false).residual,
                options_.dropout);
  }

  static at::Tensor FirstsOf(const at::Tensor& x, const Tokens& tokens) {
    return tokens.firsts.defined() ? PackRows(x, tokens.firsts)
                                   : x.view({tokens.texts, tokens.length, -1}).select(1, 0);
  }

  // Returns [N, C], or [B, C] if only the first tokens are requested.
  at::Tensor Layer(const at::Tensor& x,
                   const BertBlock& block,
                   const Tokens& tokens,
                   bool only_first) const {
    const at::Tensor asking = only_first ? FirstsOf(x, tokens) : x;
    const at::Tensor mixed = Drop(Mix(asking, x, block, tokens, only_first), options_.dropout);
    const ResidualAndNorm seen =
        NormedSum(asking, mixed, Norm(block.attention_norm), /*for_products=*/true);
    const at::Tensor inner = ApplyGelu(Linear(seen.normed, block.intermediate), gelu_);
    const at::Tensor more = Drop(Linear(inner, block.output), options_.dropout);
    return NormedSum(seen.residual, more, Norm(block.output_norm), /*for_products=*/false).residual;
  }

  // Self-attention of the tokens `asking` over all tokens `x`.
  at::Tensor Mix(const at::Tensor& asking,
                 const at::Tensor& x,
                 const BertBlock& block,
                 const Tokens& tokens,
                 bool only_first) const {
    const int64_t width = options_.hidden_size / options_.num_attention_heads;
    const auto split = [&](const at::Tensor& rows) {
      return rows.view({tokens.texts, -1, OwnCount(options_.num_attention_heads), width})
          .transpose(1, 2);
    };
    const auto padded = [&](const at::Tensor& rows) {
      return tokens.places.defined() ? PadRows(rows, tokens.places, tokens.texts * tokens.length)
                                     : rows;
    };
    std::vector<at::Tensor> rows;
    if (only_first) {
      rows = Linears(x, {&block.key, &block.value});
      rows.insert(rows.begin(), Linear(asking, block.query));
    } else {
      rows = Linears(x, {&block.query, &block.key, &block.value});
      rows[0] = padded(rows[0]);
    }
    const at::Tensor mixed = Attention(
        split(rows[0]), split(padded(rows[1])), split(padded(rows[2])),
        {.mask = tokens.mask, .dropout = InTraining(options_.attention_dropout), .axis = axis()});
    const bool packs = tokens.places.defined() && !only_first;
    return Linear(packs ? PackRows(mixed, tokens.places) : mixed, block.attention_output);
  }

  const BertOptions options_;
  const Gelu gelu_;
  WordVectors words_;
  at::Tensor positions_;  // [max_position_embeddings, C]
  at::Tensor types_;      // [type_vocab_size, C]
  Affine embeddings_norm_;
  std::vector<BertBlock> blocks_;
  Affine pooler_;
  Affine classifier_;
};

std::string Bert::ConfigJson() const {
  nlohmann::ordered_json config = {{"architectures", {"BertForSequenceClassification"}},
                                   {"model_type", "bert"},
                                   {"vocab_size", options_.vocab_size},
                                   {"max_position_embeddings", options_.max_position_embeddings},
                                   {"type_vocab_size", options_.type_vocab_size},
                                   {"hidden_size", options_.hidden_size},
                                   {"num_hidden_layers", options_.num_hidden_layers},
                                   {"num_attention_heads", options_.num_attention_heads},
                                   {"intermediate_size", options_.inner_size()},
                                   {"hidden_act", options_.hidden_act},
                                   {"hidden_dropout_prob", options_.dropout},
                                   {"attention_probs_dropout_prob", options_.attention_dropout},
                                   {"classifier_dropout", options_.classifier_dropout},
                                   {"layer_norm_eps", options_.layer_norm_eps},
                                   {"initializer_range", kBertDeviation},
                                   {"pad_token_id", nullptr},
                                   {"torch_dtype", "float32"}};
  if (options_.pad_token_id >= 0) config["pad_token_id"] = options_.pad_token_id;
  // transformers takes the number of labels from these two maps.
  for (int64_t i = 0; i < options_.num_labels; ++i) {
    const auto index = static_cast<size_t>(i);
    const std::string label =
        index < options_.labels.size() ? options_.labels[index] : "LABEL_" + std::to_string(i);
    config["id2label"][std::to_string(i)] = label;
    config["label2id"][label] = i;
  }
  return config.dump(2) + "\n";
}

std::optional<std::string> Bert::ParameterFor(const std::string& stored_name) const {
  // Skips the heads of pre-training, and constants that older versions saved, too.
  if (stored_name.starts_with("cls.") || stored_name.ends_with("embeddings.position_ids") ||
      stored_name.ends_with("embeddings.token_type_ids")) {
    return std::nullopt;
  }
  std::string name = stored_name;
  // Files saved from BertModel lack the prefix.
  for (const std::string_view part : {"embeddings.", "encoder.", "pooler."}) {
    if (stored_name.starts_with(part)) name = "bert." + stored_name;
  }
  // Weights converted from TensorFlow, such as bert-base-cased, have these older names.
  for (const auto& [old_end, end] :
       {std::pair<std::string_view, const char*>{"gamma", "weight"}, {"beta", "bias"}}) {
    if (name.ends_with("LayerNorm." + std::string(old_end))) {
      name.replace(name.size() - old_end.size(), old_end.size(), end);
    }
  }
  return name;
}

}  // namespace

std::shared_ptr<Model> MakeBert(const BertOptions& options) {
  CheckSizes("bert", options,
             options.type_vocab_size > 0 && options.num_labels > 0 && options.pad_token_id >= -1 &&
                 options.pad_token_id < options.vocab_size,
             ", pad_token_id " + std::to_string(options.pad_token_id) +
                 " (inside the vocabulary), " + std::to_string(options.type_vocab_size) +
                 " token types, " + std::to_string(options.num_labels) + " labels");
  return std::make_shared<Bert>(options);
}

}  // namespace ddprun::trainer
