// BERT that classifies texts and pairs of texts. It has the parameter names, layouts, activation
// and initial distribution of Hugging Face's BertForSequenceClassification (transformers 4.57).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/models/layers.h"

namespace ddprun::trainer {

struct BertOptions : TransformerOptions {
  static constexpr const char* kType = "bert";

  int64_t type_vocab_size = 2;
  int64_t num_labels = 2;                // 1: regression
  std::vector<std::string> labels = {};  // names of the classes; may be fewer; empty: LABEL_0, ...
  std::string hidden_act = "gelu";       // Hugging Face's name of a GELU
  double dropout = 0.0;
  double classifier_dropout = 0.0;
  double layer_norm_eps = 1e-12;
  int64_t pad_token_id = 0;  // its embedding is not trained; -1: none

  bool operator==(const BertOptions&) const = default;
};

// Makes the model. Batches: inputs, token_type_ids and attention_mask int64 [B, L]; targets int64
// [B], or numbers [B] for one label. Outputs: [B, num_labels]. Throws Failure for wrong sizes.
std::shared_ptr<Model> MakeBert(const BertOptions& options);

}  // namespace ddprun::trainer
