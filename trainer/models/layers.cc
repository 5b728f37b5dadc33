#include "trainer/models/layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/nll_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>

#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

#include "base/check.h"
#include "base/failure.h"
#include "trainer/compute/device.h"
#include "trainer/compute/operations.h"
#include "trainer/compute/precision.h"

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

namespace {

// Returns the outputs of a layer with those of its LoRA added. `x`: the layer's input.
at::Tensor WithLora(const at::Tensor& outputs, const at::Tensor& x, const Affine& layer) {
  const LoraMatrices* const lora = layer.lora.get();
  if (lora == nullptr || !lora->a.defined()) return outputs;
  const at::Tensor input = DropElements(x, lora->model->is_training() ? lora->dropout : 0);
  const at::Tensor narrow = LinearLayer(input, lora->a, {});
  return at::add(outputs, LinearLayer(narrow, lora->b, {}), lora->scaling);
}

}  // namespace

at::Tensor Linear(const at::Tensor& x, const Affine& layer) {
  if (layer.axis == nullptr) {
    return WithLora(LinearLayer(x, layer.weight, layer.bias, layer.layout), x, layer);
  }
  const LinearWeights own = {layer.weight, layer.bias};
  if (layer.split == Split::kInputs) return layer.axis->ByInputs(x, own, layer.layout);
  const at::Tensor part = layer.axis->ByOutputs(x, {&own, 1}, layer.layout).front();
  return layer.split == Split::kGathered ? layer.axis->Gather(part, layer.outputs) : part;
}

std::vector<at::Tensor> Linears(const at::Tensor& x, std::initializer_list<const Affine*> layers) {
  const Affine& first = **layers.begin();
  std::vector<at::Tensor> outputs;
  outputs.reserve(layers.size());
  std::vector<LinearWeights> own;
  for (const Affine* layer : layers) own.push_back({layer->weight, layer->bias});
  if (first.axis == nullptr) {
    if (first.layout == WeightLayout::kOutIn && IsFasterAsOneProduct(x, own)) {
      outputs = LinearLayers(x, own);
      auto output = outputs.begin();
      for (const Affine* layer : layers) *output = WithLora(*output, x, *layer), ++output;
      return outputs;
    }
    for (const Affine* layer : layers) outputs.push_back(Linear(x, *layer));
    return outputs;
  }
  return first.axis->ByOutputs(x, own, first.layout);
}

at::Tensor Embedding(const at::Tensor& ids, const WordVectors& words, int64_t padding) {
  if (words.axis == nullptr) return at::embedding(words.weight, ids, padding);
  const auto [begin, length] = words.axis->OwnRange(words.vocabulary);
  const at::Tensor rows = ids - begin;
  const at::Tensor elsewhere = rows.lt(0).logical_or_(rows.ge(length));
  const bool has_padding = padding >= begin && padding < begin + length;
  const at::Tensor found = at::embedding(words.weight, rows.masked_fill(elsewhere, 0),
                                         has_padding ? padding - begin : -1);
  return words.axis->Sum(found.masked_fill(elsewhere.unsqueeze(-1), 0));
}

at::Tensor Scores(const at::Tensor& x, const WordVectors& words) {
  // Weights tied to the embedding may be on the embedding's device.
  if (words.axis == nullptr) return LinearLayer(x, words.weight.to(x.device()), {});
  const LinearWeights own = {words.weight, {}};
  return words.axis->Gather(words.axis->ByOutputs(x, {&own, 1}, WeightLayout::kOutIn).front(),
                            words.vocabulary);
}

at::Tensor Convolution(const at::Tensor& x, const Affine& layer, int64_t stride, int64_t padding) {
  const at::ScalarType type = ComputeType();
  // Outside a scope of bfloat16 a model computes in its own type, float64 too.
  if (type == at::kFloat) return at::conv2d(x, layer.weight, layer.bias, stride, padding);
  const at::Tensor bias = layer.bias.defined() ? layer.bias.to(type) : at::Tensor();
  return at::conv2d(x.to(type), layer.weight.to(type), bias, stride, padding);
}

NormLayer LayerNormOf(const Affine& layer, double epsilon) {
  return {.weight = layer.weight, .bias = layer.bias, .epsilon = epsilon};
}

at::Tensor MaskOnHost(const Batch& batch) {
  const at::Tensor& kept = batch.on_host.attention_mask;
  return kept.defined() ? kept : batch.attention_mask;
}

int64_t LargestTarget(const Batch& batch) {
  if (batch.targets.numel() == 0) return 0;
  return batch.on_host.largest_target ? *batch.on_host.largest_target
                                      : batch.targets.max().item<int64_t>();
}

namespace {

// Returns the mask in the form that attention takes. On CUDA these are numbers that it adds to the
// scores: made here once, and not by each layer from a mask of bools. Their rows begin at multiples
// of 16 bytes, or each layer would copy them.
at::Tensor MaskForLayers(const at::Tensor& seen) {
  if (!seen.is_cuda()) return seen;
  constexpr int64_t kAligned = 8;
  std::vector<int64_t> sizes = seen.sizes().vec();
  sizes.back() = (sizes.back() + kAligned - 1) / kAligned * kAligned;
  const at::Tensor numbers =
      at::zeros(sizes, seen.options().dtype(ComputeType())).narrow(-1, 0, seen.size(-1));
  return numbers.masked_fill_(seen.logical_not(), -std::numeric_limits<double>::infinity());
}

}  // namespace

at::Tensor KeyMask(const Batch& batch) {
  if (!batch.attention_mask.defined()) return {};
  if (MaskOnHost(batch).ne(0).all().item<bool>()) return {};
  return MaskForLayers(batch.attention_mask.ne(0).unsqueeze(1).unsqueeze(1));
}

namespace {

// Returns the lengths of the texts, one after the other. Each begins at position 0.
std::vector<int64_t> LengthsOf(const at::Tensor& positions) {
  std::vector<int64_t> lengths;
  const auto* first = positions.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < positions.numel(); ++i) {
    if (first[i] == 0) lengths.push_back(0);
    ++lengths.back();
  }
  return lengths;
}

// `numbers`: of the text that each token belongs to, int64 [B, L].
CausalView ViewOfSeveralTexts(const at::Tensor& numbers) {
  const int64_t length = numbers.size(1);
  const at::Tensor places = at::arange(length, numbers.options());
  const at::Tensor before = numbers.roll(1, 1);
  const at::Tensor begins = numbers.ne(before).logical_or(places.eq(0));
  const at::Tensor starts = std::get<0>(at::mul(begins, places).cummax(1));
  CausalView view{.positions = places - starts};
  if (numbers.is_cpu()) {
    view.texts = LengthsOf(view.positions);
  } else {
    const at::Tensor same = starts.unsqueeze(2).eq(starts.unsqueeze(1));
    view.mask = MaskForLayers(same.tril().unsqueeze(1));
  }
  return view;
}

}  // namespace

CausalView CausalViewOf(const Batch& batch) {
  if (!batch.attention_mask.defined()) return {};
  const int64_t length = batch.attention_mask.size(1);
  if (MaskOnHost(batch).gt(1).any().item<bool>()) return ViewOfSeveralTexts(batch.attention_mask);
  const at::Tensor on_host = MaskOnHost(batch) != 0;
  if ((on_host.narrow(1, 1, length - 1) <= on_host.narrow(1, 0, length - 1)).all().item<bool>()) {
    return {};
  }
  const at::Tensor seen = batch.attention_mask != 0;
  const auto options = seen.options();
  // A padding token sees itself, because a softmax over no keys is NaN.
  const at::Tensor keys = seen.view({-1, 1, 1, length}).logical_or(at::eye(length, options));
  return {.mask = MaskForLayers(keys.logical_and(at::ones({length, length}, options).tril()))};
}

namespace {

// Attends to each text alone, which takes the time of the texts' squares instead of the rows'.
at::Tensor AttentionOfTexts(const at::Tensor& queries,
                            const at::Tensor& keys,
                            const at::Tensor& values,
                            const AttentionOptions& options) {
  // Splits the tokens of all rows, because a part of a split costs backward no more than its size.
  const auto split = [&](const at::Tensor& x) {
    return x.transpose(1, 2).reshape({-1, x.size(1), x.size(3)}).split_with_sizes(options.texts);
  };
  const auto heads_first = [](const at::Tensor& x) { return x.transpose(0, 1).unsqueeze(0); };
  const std::vector<at::Tensor> of_queries = split(queries);
  const std::vector<at::Tensor> of_keys = split(keys);
  const std::vector<at::Tensor> of_values = split(values);
  std::vector<at::Tensor> mixed;
  for (size_t i = 0; i < of_queries.size(); ++i) {
    const at::Tensor one = ScaledDotProduct({.queries = heads_first(of_queries[i]),
                                             .keys = heads_first(of_keys[i]),
                                             .values = heads_first(of_values[i]),
                                             .mask = {},
                                             .causal = true,
                                             .dropout = options.dropout});
    mixed.push_back(one.squeeze(0).transpose(0, 1).reshape({one.size(2), -1}));
  }
  return at::cat(mixed);
}

}  // namespace

at::Tensor Attention(const at::Tensor& queries,
                     const at::Tensor& keys,
                     const at::Tensor& values,
                     const AttentionOptions& options) {
  std::optional<RandomNumbersOfPart> of_these_heads;
  if (options.axis != nullptr && options.dropout > 0) {
    of_these_heads.emplace(queries.device(), options.axis->rank());
  }
  if (!options.texts.empty()) return AttentionOfTexts(queries, keys, values, options);
  const at::Tensor mixed = ScaledDotProduct({.queries = queries,
                                             .keys = keys,
                                             .values = values,
                                             .mask = options.mask,
                                             .causal = options.causal,
                                             .dropout = options.dropout});
  // [B, H, L, D] -> [N, H * D]
  return mixed.transpose(1, 2).reshape({-1, queries.size(1) * values.size(-1)});
}

at::Tensor LastTokenOfEach(const at::Tensor& x, int64_t texts) {
  return x.view({texts, -1, x.size(-1)}).select(1, -1);
}

at::Tensor WidenToFloat(const at::Tensor& x) {
  return at::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x;
}

at::Tensor CrossEntropy(const at::Tensor& scores,
                        const at::Tensor& targets,
                        int64_t predictions,
                        double smoothing) {
  const at::Tensor exact = WidenToFloat(scores);
  const auto reduction = predictions > 0 ? at::Reduction::Mean : at::Reduction::Sum;
  if (smoothing == 0 || IsForHostKernels(scores)) {
    return at::cross_entropy_loss(exact, targets, /*weight=*/{}, reduction, kIgnoredTarget,
                                  smoothing);
  }
  // Uses nll_loss, because cross_entropy_loss with smoothing would wait for a count of the device.
  const at::Tensor logs = at::log_softmax(exact, 1);
  const at::Tensor of_targets =
      at::nll_loss(logs, targets, /*weight=*/{}, reduction, kIgnoredTarget);
  const at::Tensor ignored = targets.eq(kIgnoredTarget);
  const at::Tensor of_all = logs.mean(1).masked_fill(ignored, 0).sum();
  const at::Tensor count = ignored.logical_not().sum().clamp_min(1);
  return of_targets * (1 - smoothing) - of_all / count * smoothing;
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
            .what = "The batch has sequences of " + std::to_string(length) +
                    " tokens; this model takes at most " + std::to_string(positions) + ".",
            .hint = "Make data.max_seq_length smaller, or the samples of your plugin shorter.",
            .page = "sequence-too-long"});
}

void ThrowWrongSize(const std::string& type, const std::string& sizes) {
  throw Failure(Error{.code = Code::kUsage,
                      .title = "WRONG MODEL SIZE",
                      .what = "A " + type + " model was asked for with " + sizes + ".",
                      .hint = "Correct the model section of the config.",
                      .page = "model-size"});
}

int64_t FanIn(const at::Tensor& weight) {
  return weight.numel() / weight.size(0);
}

void InitializeAsTorch(at::Tensor& weight, at::Tensor& bias) {
  // kaiming_uniform_(weight, a=sqrt(5)), then the bias, with Python's order of operations, because
  // the bounds decide the bits.
  const double root = std::sqrt(static_cast<double>(FanIn(weight)));
  const double gain = std::sqrt(2.0 / (1 + std::pow(std::sqrt(5.0), 2)));
  const double bound = std::sqrt(3.0) * (gain / root);
  weight.uniform_(-bound, bound);
  if (bias.defined()) bias.uniform_(-1 / root, 1 / root);
}

void KaimingNormalFanOut(at::Tensor& weight) {
  const int64_t receptive_field = weight.numel() / (weight.size(0) * weight.size(1));
  const auto fan_out = static_cast<double>(weight.size(0) * receptive_field);
  weight.normal_(0, std::sqrt(2.0) / std::sqrt(fan_out));
}

at::Tensor Images(const at::Tensor& inputs, at::IntArrayRef image) {
  if (inputs.is_floating_point()) {
    if (inputs.dim() == 4 && (image.empty() || inputs.sizes().slice(1) == image)) return inputs;
    if (inputs.dim() == 2 && image.size() == 3 &&
        inputs.size(1) == image[0] * image[1] * image[2]) {
      return inputs.view({-1, image[0], image[1], image[2]});
    }
  }
  std::ostringstream text;
  text << "The data gives inputs " << inputs.scalar_type() << " " << inputs.sizes()
       << "; this model takes images: float [batch, channels, height, width]";
  if (!image.empty()) text << " of " << image;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "DATA DOES NOT FIT THE MODEL",
                      .what = text.str() + ".",
                      .hint = "Train on images (data.format), or take another model.type.",
                      .page = "data-does-not-fit"});
}

}  // namespace ddprun::trainer
