#include "trainer/data/pair_dataset.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/check.h"
#include "base/cpus.h"
#include "base/env.h"
#include "base/text.h"
#include "trainer/data/data_files.h"
#include "trainer/text/encode_pair.h"

namespace ddprun::trainer {

namespace {

// Returns the class of `label`, which is the class's name or number.
std::optional<int64_t> ClassOf(const std::string& label, const std::vector<std::string>& labels) {
  const auto found = std::ranges::find(labels, label);
  if (found != labels.end()) return found - labels.begin();
  const std::optional<int64_t> number = ParseInt(label);
  const bool is_class = number && *number >= 0 && *number < static_cast<int64_t>(labels.size());
  return is_class ? number : std::nullopt;
}

// Returns int64 [B, length]: 1 for tokens of the second text.
at::Tensor TokenTypes(const std::vector<EncodedPair>& rows, int64_t length) {
  at::Tensor types = at::zeros({static_cast<int64_t>(rows.size()), length}, at::kLong);
  auto* to = types.mutable_data_ptr<int64_t>();
  for (const EncodedPair& row : rows) {
    std::fill(to + row.second_begin, to + row.ids.size(), 1);
    to += length;
  }
  return types;
}

}  // namespace

PairDataset::PairDataset(const PairDatasetOptions& options,
                         std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)),
      max_length_(options.max_length),
      token_types_(options.token_types),
      bad_rows_(options.skip_bad_rows),
      texts_(LabelledTexts::Read(options.files, options.columns, bad_rows_)) {
  if (tokenizer_->special().pad < 0) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "NO TOKEN FOR PADDING",
                        .what = "The tokenizer has no token to fill up short rows with, as [PAD].",
                        .hint = "Take a tokenizer of the BERT family.",
                        .page = "no-padding-token"});
  }
  MapLabels(options.labels, options.classes);
}

std::vector<std::string> PairDataset::Notes() const {
  std::vector<std::string> notes = bad_rows_.Notes();
  if (!unseen_labels_.empty()) notes.push_back(unseen_labels_);
  return notes;
}

void PairDataset::MapLabels(std::vector<std::string> labels, int64_t classes) {
  const std::vector<std::string>& seen = texts_.label_names();
  if (labels.empty()) {
    if (std::ssize(seen) < classes) {
      unseen_labels_ = "model.num_labels is " + std::to_string(classes) + ", but the texts have " +
                       CountText(std::ssize(seen), "label", "different labels") + ": " +
                       QuoteNames(seen);
    }
    for (int64_t i = 0; i < classes; ++i) labels.push_back(std::to_string(i));
    const auto is_class = [&](const auto& name) { return ClassOf(name, labels).has_value(); };
    if (!std::ranges::all_of(seen, is_class)) labels = seen;
  }
  labels_ = std::move(labels);
  for (const std::string& name : seen) {
    const std::optional<int64_t> label = ClassOf(name, labels_);
    if (!label) throw UnknownLabel(texts_.place_of(name), name, labels_);
    class_of_label_.push_back(*label);
  }
}

DataShape PairDataset::shape() const {
  return {.classes = static_cast<int64_t>(labels_.size()),
          .labels = labels_,
          .vocab_size = tokenizer_->vocab_size()};
}

std::vector<int64_t> PairDataset::Classes() const {
  std::vector<int64_t> classes(static_cast<size_t>(size()));
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = class_of_label_[texts_.label(i)];
  return classes;
}

Batch PairDataset::Get(std::span<const int64_t> indices) const {
  std::vector<EncodedPair> rows;
  rows.reserve(indices.size());
  size_t longest = 0;
  for (const int64_t index : indices) {
    DDPRUN_CHECK(index >= 0 && index < size());
    rows.push_back(EncodePair(*tokenizer_, texts_.first(index), texts_.second(index), max_length_));
    longest = std::max(longest, rows.back().ids.size());
  }
  const auto count = static_cast<int64_t>(indices.size());
  const auto length = static_cast<int64_t>(longest);
  Batch batch{.inputs = at::full({count, length}, tokenizer_->special().pad, at::kLong),
              .targets = at::empty({count}, at::kLong),
              .attention_mask = at::zeros({count, length}, at::kLong),
              .samples = count,
              .predictions = count};
  auto* ids = batch.inputs.mutable_data_ptr<int64_t>();
  auto* mask = batch.attention_mask.mutable_data_ptr<int64_t>();
  auto* targets = batch.targets.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    const EncodedPair& row = rows[i];
    const auto tokens = static_cast<int64_t>(row.ids.size());
    std::copy(row.ids.begin(), row.ids.end(), ids + i * length);
    std::fill_n(mask + i * length, tokens, 1);
    targets[i] = class_of_label_[texts_.label(indices[i])];
  }
  if (token_types_) batch.token_type_ids = TokenTypes(rows, length);
  return batch;
}

std::vector<int64_t> PairDataset::Lengths() const {
  std::vector<int64_t> lengths(static_cast<size_t>(size()));
  constexpr size_t kRowsAtOnce = 256;
  RunInParts(CoreCount(), lengths.size(), kRowsAtOnce, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const auto row = static_cast<int64_t>(i);
      lengths[i] = static_cast<int64_t>(
          EncodePair(*tokenizer_, texts_.first(row), texts_.second(row), max_length_).ids.size());
    }
  });
  return lengths;
}

}  // namespace ddprun::trainer
