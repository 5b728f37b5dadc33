// BERT for the classification of texts and pairs of texts, as Hugging Face's
// BertForSequenceClassification (transformers 4.57): the same parameter names, layouts, activation
// and initial distribution.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/models/model.h"

namespace ddprun::trainer {

struct BertOptions {
  int64_t vocab_size = 28996;  // the sizes of bert-base-cased
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  int64_t num_labels = 2;           // 1: regression
  std::vector<std::string> labels;  // names of the classes for config.json; empty: LABEL_0, ...
  std::string hidden_act = "gelu";  // Hugging Face's name of a GELU
  double hidden_dropout = 0.0;
  double attention_dropout = 0.0;
  double classifier_dropout = 0.0;
  double label_smoothing = 0.0;  // of classes
  double layer_norm_eps = 1e-12;
  int64_t pad_token_id = 0;  // its embedding is not trained; -1: none
  // False: weights are left as they come, for a rank that receives them by broadcast or file.
  bool initialize = true;
};

// Batches: inputs, token_type_ids and attention_mask int64 [B, L]; targets int64 [B], or numbers
// [B] for one label. Outputs: [B, num_labels]. Throws Failure for sizes that do not fit.
std::shared_ptr<Model> MakeBert(const BertOptions& options);

}  // namespace ddprun::trainer
