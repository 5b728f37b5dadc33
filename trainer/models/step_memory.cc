#include "trainer/models/step_memory.h"

#include <algorithm>
#include <cmath>
#include <string>

// Shapes: B samples, L length, N tokens, C width, I intermediate width, H heads, V vocabulary. A
// rank has its share of I, H, V, and of the width within attention.
namespace ddprun::trainer {

namespace {

constexpr double kFloat = 4;
constexpr double kIndex = 8;              // int64
constexpr double kScorePiece = 32 << 20;  // of LinearCrossEntropy
constexpr double kDeviceScorePiece = 256 << 20;
constexpr int64_t kLongestComposed = 1024;  // of ScaledDotProduct
// Tensors that tensor ranks sum per block: the outputs of attention and of the inner products, and
// the gradients of their inputs.
constexpr double kSums = 4;

struct Sizes {
  explicit Sizes(const BatchSize& batch, const TransformerOptions& model = {})
      : samples(static_cast<double>(batch.samples)),
        length(static_cast<double>(batch.length)),
        tokens(batch.tokens),
        width(static_cast<double>(model.hidden_size)),
        share(1 / static_cast<double>(batch.tensor_ranks)),
        own_width(width * share),
        inner(static_cast<double>(model.inner_size()) * share),
        heads(static_cast<double>(model.num_attention_heads) * share),
        vocabulary(static_cast<double>(model.vocab_size) * share),
        number(batch.bf16 ? 2 : kFloat),
        on_device(batch.on_device),
        composed(!on_device && (model.attention_dropout > 0 || batch.bf16) &&
                 batch.length <= kLongestComposed),
        drops_scores(model.attention_dropout > 0) {}

  double samples, length, tokens, width, share, own_width, inner, heads, vocabulary;
  double number;  // bytes of each input and output number of a product
  bool on_device;
  bool composed;  // attention keeps its probabilities
  bool drops_scores;
  double places() const { return samples * length; }
  // Returns the size of one tensor [B, H, L, L].
  double scores(double queries) const { return samples * heads * queries * length; }
  // In bfloat16 the products keep copies of their weights.
  double copies(double weights) const { return number == kFloat ? 0 : weights * number; }
};

struct AttentionMemory {
  double saved = 0;
  double transient = 0;
};

// Returns the memory of ScaledDotProduct() with `queries` tokens of each sample, of `width` numbers
// each: queries, keys and values, and the tensors made from the scores. The caller counts the
// result.
AttentionMemory MemoryOfAttention(const Sizes& s, double queries, double width) {
  const double rows = s.samples * (queries + 2 * s.length) * width;
  if (!s.composed) {
    return {rows * s.number + s.samples * queries * (width * s.number + s.heads * kFloat),
            rows * s.number};
  }
  const double once = s.scores(queries);
  const double kept = once * kFloat + (s.drops_scores || s.number != kFloat ? once * s.number : 0);
  return {rows * s.number + kept, rows * s.number + 2 * once * kFloat};
}

StageMemory Embedding(const Sizes& s, double rows_of_table, double others) {
  return {.saved = s.places() * kIndex,
          .forward = 2 * s.tokens * s.width * kFloat,
          .backward = s.tokens * s.width * kFloat,
          .gradients = (rows_of_table + others) * s.width * kFloat,
          .largest_gradient = rows_of_table * s.width * kFloat,
          .summed = s.tokens * s.width * kFloat};
}

// Returns the memory of the last norm, and of the loss, whose gradients are computed in forward.
StageMemory CausalHead(const Sizes& s, bool tied, double norm_keeps) {
  const double hidden = s.tokens * s.width;
  const double table = s.vocabulary * s.width * kFloat;
  const double row = s.vocabulary * s.number;
  const double largest = s.on_device ? kDeviceScorePiece : kScorePiece;
  // A device has the scores and their softmax in float32, beside gradients in 16 bits.
  const double softmax = !s.on_device ? 0 : s.number == kFloat ? 1 : 2 * kFloat / s.number;
  const double piece = std::max(row, std::min(largest, s.tokens * row)) * (1 + softmax);
  StageMemory head{.saved = hidden * norm_keeps + hidden * s.number,
                   .forward = hidden * kFloat + table + piece + s.copies(s.vocabulary * s.width),
                   .backward = hidden * kFloat,
                   .summed = hidden * s.number};
  if (tied) {
    head.held = table;  // until the embedding's own gradient is added to it
  }
  head.gradients = head.largest_gradient = table;
  return head;
}

// Returns the memory of embedding, blocks and head of a language model.
template <typename Language>
std::vector<StageMemory> CausalStages(const Sizes& s,
                                      const Language& model,
                                      double positions,
                                      const StageMemory& block,
                                      double norm_keeps) {
  std::vector<StageMemory> stages{Embedding(s, s.vocabulary, positions)};
  stages.insert(stages.end(), static_cast<size_t>(model.num_hidden_layers), block);
  stages.push_back(CausalHead(s, model.tie_word_embeddings, norm_keeps));
  if (model.tie_word_embeddings) stages.front().gradients -= s.vocabulary * s.width * kFloat;
  return stages;
}

std::optional<std::vector<StageMemory>> MemoryOf(const GptOptions& model,
                                                 const Model& /*shape*/,
                                                 const BatchSize& batch) {
  const Sizes s(batch, model);
  const double hidden = s.tokens * s.width;
  const double inner = s.tokens * s.inner;
  const double weights = (4 * s.own_width + 2 * s.inner) * s.width;
  const AttentionMemory attention = MemoryOfAttention(s, s.length, s.own_width);
  const StageMemory block{
      // The stream before and after attention; the inputs of c_attn, c_proj, c_fc and the GELU.
      .saved = hidden * (2 * kFloat + (2 + s.share) * s.number) + 2 * inner * s.number +
               attention.saved + s.copies(weights),
      .forward = std::max(attention.transient, inner * s.number),
      .backward = hidden * kFloat + std::max(attention.transient, 2 * inner * s.number),
      .gradients = weights * kFloat,
      .largest_gradient = s.inner * s.width * kFloat,
      .input = hidden * kFloat,
      .summed = kSums * hidden * s.number};
  const auto positions = static_cast<double>(model.max_position_embeddings);
  return CausalStages(s, model, positions, block, kFloat);
}

std::optional<std::vector<StageMemory>> MemoryOf(const LlamaOptions& model,
                                                 const Model& /*shape*/,
                                                 const BatchSize& batch) {
  const Sizes s(batch, model);
  const double groups =
      s.share * static_cast<double>(model.num_key_value_heads > 0 ? model.num_key_value_heads
                                                                  : model.num_attention_heads);
  const double head =
      model.head_dim > 0 ? static_cast<double>(model.head_dim) : s.own_width / s.heads;
  const double hidden = s.tokens * s.width;
  const double inner = s.tokens * s.inner;
  const double weights = (2 * s.heads + 2 * groups) * head * s.width + 3 * s.inner * s.width;
  const AttentionMemory attention = MemoryOfAttention(s, s.length, s.heads * head);
  const StageMemory block{
      // Each of the two norms keeps its input, the normalized input, and its output.
      .saved = hidden * (4 * kFloat + 2 * s.number) + s.tokens * s.heads * head * s.number +
               4 * inner * s.number + attention.saved + s.copies(weights),
      .forward = std::max(attention.transient, inner * s.number),
      .backward = hidden * kFloat + std::max(attention.transient, 3 * inner * s.number),
      .gradients = weights * kFloat,
      .largest_gradient = s.inner * s.width * kFloat,
      .input = hidden * kFloat,
      .summed = kSums * hidden * s.number};
  return CausalStages(s, model, 0, block, 2 * kFloat);
}

std::optional<std::vector<StageMemory>> MemoryOf(const BertOptions& model,
                                                 const Model& /*shape*/,
                                                 const BatchSize& batch) {
  const Sizes s(batch, model);
  const double weights = (4 * s.own_width + 2 * s.inner) * s.width;
  // After the last layer, only the first token of each sample is used.
  const auto layer = [&](double rows, double queries) {
    const double hidden = rows * s.width;
    const double inner = rows * s.inner;
    const AttentionMemory attention = MemoryOfAttention(s, queries, s.own_width);
    return StageMemory{
        .saved = s.tokens * s.width * s.number + hidden * (2 * kFloat + (1 + s.share) * s.number) +
                 2 * inner * s.number + attention.saved + s.copies(weights),
        .forward = std::max(attention.transient, inner * s.number),
        .backward =
            s.tokens * s.width * kFloat + std::max(attention.transient, 2 * inner * s.number),
        .gradients = weights * kFloat,
        .largest_gradient = s.inner * s.width * kFloat,
        .input = s.tokens * s.width * kFloat,
        .summed = kSums * s.tokens * s.width * s.number};
  };
  StageMemory embedding =
      Embedding(s, s.vocabulary, static_cast<double>(model.max_position_embeddings));
  embedding.saved += s.tokens * s.width * kFloat;  // the input of its norm
  std::vector<StageMemory> stages{embedding};
  stages.insert(stages.end(), static_cast<size_t>(model.num_hidden_layers - 1),
                layer(s.tokens, s.length));
  stages.push_back(layer(s.samples, 1));
  stages.push_back({.saved = 4 * s.samples * s.width * kFloat,
                    .gradients = s.width * s.width * kFloat,
                    .largest_gradient = s.width * s.width * kFloat});
  return stages;
}

// Returns the memory of a layer with in x out weights that keeps its input.
StageMemory LinearStage(double samples, double in, double out, double number) {
  return {.saved = samples * in * number + (number == kFloat ? 0 : in * out * number),
          .forward = samples * out * kFloat,
          .backward = samples * (in + out) * kFloat,
          .gradients = in * out * kFloat,
          .largest_gradient = in * out * kFloat};
}

std::optional<std::vector<StageMemory>> MemoryOf(const MlpOptions& model,
                                                 const Model& /*shape*/,
                                                 const BatchSize& batch) {
  const Sizes s(batch);
  std::vector<StageMemory> stages;
  for (size_t i = 0; i + 1 < model.sizes.size(); ++i) {
    // The first of a pair of layers is split by outputs, the second by inputs. The output of an odd
    // last layer is gathered.
    const bool second = i % 2 == 1;
    const auto in = static_cast<double>(model.sizes[i]);
    const auto out = static_cast<double>(model.sizes[i + 1]);
    StageMemory stage =
        LinearStage(s.samples, in * (second ? s.share : 1), out * (second ? 1 : s.share), s.number);
    if (i > 0) stage.input = s.samples * in * (second ? s.share : 1) * s.number;
    stage.summed = s.samples * kFloat * (second ? out : i > 0 ? in : 0);
    stages.push_back(stage);
  }
  return stages;
}

std::optional<std::vector<StageMemory>> MemoryOf(const CnnOptions& model,
                                                 const Model& /*shape*/,
                                                 const BatchSize& batch) {
  const Sizes s(batch);
  auto in = static_cast<double>(model.image[0]);
  int64_t height = model.image[1];
  int64_t width = model.image[2];
  std::vector<StageMemory> stages;
  for (const int64_t channels : model.channels) {
    const auto out = static_cast<double>(channels);
    const double pixels = s.samples * static_cast<double>(height * width);
    height /= 2;
    width /= 2;
    const double pooled = s.samples * static_cast<double>(height * width) * out;
    // The output of the ReLU; the output of pooling, and its indices.
    stages.push_back({.saved = pixels * out * s.number + pooled * (s.number + kIndex),
                      .forward = pixels * out * s.number,
                      .backward = 2 * pixels * out * s.number + pixels * in * s.number,
                      .gradients = in * out * 9 * kFloat,
                      .largest_gradient = in * out * 9 * kFloat,
                      .input = pixels * in * s.number});
    in = out;
  }
  const auto hidden = static_cast<double>(model.hidden_size);
  stages.push_back(
      LinearStage(s.samples, in * static_cast<double>(height * width), hidden, s.number));
  stages.push_back(LinearStage(s.samples, hidden, static_cast<double>(model.num_labels), s.number));
  return stages;
}

// Finds the units by their names: "layer3.0.conv2.weight" is a unit of the third stage.
std::optional<std::vector<StageMemory>> MemoryOf(const ResNetOptions& model,
                                                 const Model& shape,
                                                 const BatchSize& batch) {
  // The size of a user's images may be unknown.
  if (model.image.size() != 3) return std::nullopt;
  const Sizes s(batch);
  std::vector<StageMemory> stages;
  double taken = 0;
  for (const auto& parameter : shape.named_parameters()) {
    const at::Tensor& weight = parameter.value();
    if (weight.dim() != 4) continue;
    const bool stem = parameter.key().starts_with("conv1");
    const int stage = stem ? 0 : parameter.key()[5] - '0';
    const double shrunk = std::exp2(stem ? 1 : stage + 1);
    const double out = s.samples * static_cast<double>(weight.size(0)) *
                       static_cast<double>(model.image[1]) / shrunk *
                       static_cast<double>(model.image[2]) / shrunk * s.number;
    const double bytes = static_cast<double>(weight.nbytes());
    // The outputs of the convolution and of the ReLU; for the stem, also of pooling.
    const bool past = parameter.key().find("downsample") != std::string::npos;
    const bool begins = !stem && parameter.key().ends_with(".conv1.weight");
    stages.push_back({.saved = past   ? out
                               : stem ? 3 * out
                                      : 2 * out,
                      .forward = out,
                      .backward = 3 * out,
                      .gradients = bytes,
                      .largest_gradient = bytes,
                      .input = begins ? taken : 0,
                      .continues_block = !stem && !begins});
    // The next block's input is the output of this block's last unit. The stem's pooling halves
    // height and width.
    if (!past) taken = stem ? out / 4 : out;
  }
  return stages;
}

// Returns nullopt for models whose memory only their own code knows.
template <typename Options>
std::optional<std::vector<StageMemory>> MemoryOf(const Options& /*model*/,
                                                 const Model& /*shape*/,
                                                 const BatchSize& /*batch*/) {
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<StageMemory>> MemoryOfStages(const ModelOptions& model,
                                                       const Model& shape,
                                                       const BatchSize& batch) {
  return std::visit([&](const auto& options) { return MemoryOf(options, shape, batch); }, model);
}

std::vector<StageMemory> WithRecomputedBlocks(const std::vector<StageMemory>& stages) {
  std::vector<StageMemory> result;
  for (const StageMemory& stage : stages) {
    const bool is_block = stage.input > 0 || stage.continues_block;
    StageMemory next = stage;
    if (is_block) {
      next.saved = stage.input;
      // A recomputed block produces all gradients at once, when its backward is complete.
      next.forward = next.backward = stage.saved + std::max(stage.forward, stage.backward);
      next.largest_gradient = stage.gradients;
      next.summed = 1.5 * stage.summed;
    }
    if (!stage.continues_block) {
      result.push_back(next);
      continue;
    }
    StageMemory& block = result.back();
    block.forward = block.backward += next.backward;
    block.gradients += stage.gradients;
    block.largest_gradient += stage.gradients;
  }
  return result;
}

double PeakBytes(const std::vector<StageMemory>& stages, bool in_buckets) {
  double live = 0;
  double peak = 0;
  for (const StageMemory& stage : stages) {
    live += stage.saved;
    peak = std::max(peak, live + stage.forward);
  }
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    const double gradients = in_buckets ? stage->largest_gradient : stage->gradients;
    peak = std::max(peak, live + stage->backward + gradients);
    live += (in_buckets ? stage->held : stage->gradients) - stage->saved;
  }
  return peak;
}

}  // namespace ddprun::trainer
