// Texts and pairs of texts to classify. The loader's threads tokenize them when a batch needs them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/data/dataset.h"
#include "trainer/data/labelled_texts.h"
#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {

struct PairDatasetOptions {
  std::vector<std::string> files = {};
  LabelledTextColumns columns = {};
  // Names of the classes, in the order of the model's outputs; a row may also have the number of
  // its class. Empty: the labels of the rows or, if these are numbers below `classes`, the classes
  // with these numbers.
  std::vector<std::string> labels = {};
  int64_t classes = 0;
  int64_t max_length = 512;  // tokens, including special ones; longer pairs are cut
  bool token_types = true;   // false: batches have no token_type_ids
  bool skip_bad_rows = false;
};

class PairDataset final : public Dataset {
 public:
  // Throws Failure if files are wrong, a label is not one of the classes, or [PAD] is missing.
  PairDataset(const PairDatasetOptions& options, std::shared_ptr<const Tokenizer> tokenizer);

  int64_t size() const override { return texts_.size(); }
  // Returns int64 inputs, attention_mask and, if requested, token_type_ids [B, L], padded to the
  // longest row of the batch; targets int64 [B].
  Batch Get(std::span<const int64_t> indices) const override;
  DataShape shape() const override;
  std::vector<int64_t> Classes() const override;
  // Tokenizes all rows, on as many threads as there are cores.
  std::vector<int64_t> Lengths() const override;
  std::vector<std::string> Notes() const override;

 private:
  void MapLabels(std::vector<std::string> labels, int64_t classes);

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const int64_t max_length_;
  const bool token_types_;
  BadRows bad_rows_;
  std::string unseen_labels_;  // a note; empty: none
  const LabelledTexts texts_;
  std::vector<std::string> labels_;
  std::vector<int64_t> class_of_label_;  // by index in texts_.label_names()
};

}  // namespace ddprun::trainer
