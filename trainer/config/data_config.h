// Section "data" of a config; see config.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/value_types.h"

namespace ddprun::trainer {

enum class DataFormat {
  kText,
  kJsonLines,
  kTokens,
  kTextClassification,
  kRandom,
  kCsv,
  kIdx,
  kCifar10,
  kCifar100,
  kImageFolder,
  kPlugin
};
enum class SampleOrder { kTorch, kWorldSizeIndependent };
enum class OnBadRow { kError, kSkip };
enum class OnMissing { kError, kSkip, kMean };
enum class TargetType { kClass, kNumber };

struct DataConfig {
  DataFormat format = DataFormat::kText;
  // Globs; absolute after ReadConfig.
  std::vector<std::string> train_files;
  std::vector<std::string> validation_files;
  double validation_fraction = 0.0;  // share of the end of the training text; without files only
  int64_t max_seq_length = 128;      // tokens, here bytes
  bool shuffle = true;
  int64_t data_seed = 42;  // sampler seed; ReadConfig makes it run.seed where the file has none
  bool dataloader_drop_last = false;
  bool sampler_drop_last = false;  // samples that cannot be shared out evenly; false: some twice
  int64_t dataloader_num_workers = 1;      // threads of each rank; 0: the loop loads by itself
  int64_t dataloader_prefetch_factor = 2;  // batches ready ahead of need, per thread
  SampleOrder sample_order = SampleOrder::kTorch;
  OnBadRow on_bad_row = OnBadRow::kError;
  std::string tokenizer;         // a folder; empty: bytes
  std::string text_column;       // jsonl: empty is "text"; text_classification: found out
  std::string text_pair_column;  // text_classification
  bool length_grouped = false;
  bool token_type_ids = true;  // text_classification: whether the model is told which text is which

  std::vector<std::string> feature_columns;      // csv; empty: all but label_column
  std::vector<std::string> categorical_columns;  // csv, besides those without any number
  int64_t max_categories = 100;                  // csv, of a column
  std::string label_column;                      // csv, text_classification
  TargetType target_type = TargetType::kClass;
  OnMissing on_missing = OnMissing::kError;
  std::string delimiter = ",";
  bool standardize = false;         // csv: by the training data's mean and deviation
  std::vector<std::string> labels;  // names of the classes in order; empty: from the data

  int64_t image_size = 0;          // image_folder: pixels, height and width
  std::vector<double> image_mean;  // one per channel, or one for all; of pixels from 0 to 1
  std::vector<double> image_std;
  int64_t random_crop_padding = 0;  // pixels on each side; 0: no random crop
  bool random_flip = false;
  bool random_resized_crop = false;

  int64_t num_samples = 0;    // random: samples of the data set
  int64_t input_size = 0;     // random: values per sample
  int64_t target_size = 0;    // random: values per target
  int64_t dataset_seed = 42;  // random; ReadConfig makes it data_seed where the file has none

  std::string plugin;  // plugin: the shared object; empty: the model's
  JsonText options;    // plugin: for its code
};

}  // namespace ddprun::trainer
