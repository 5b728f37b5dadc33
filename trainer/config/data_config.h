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
  kChat,
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
enum class ChatTemplateType { kChatml, kLlama3, kZephyr };
enum class SampleOrder { kTorch, kWorldSizeIndependent };
enum class OnBadRow { kError, kSkip };
enum class OnMissing { kError, kSkip, kMean };
enum class TargetType { kClass, kNumber };

struct DataConfig {
  DataFormat format = DataFormat::kText;
  // Globs, absolute after ReadConfig().
  std::vector<std::string> train_files;
  std::vector<std::string> validation_files;
  std::vector<std::string> test_files;
  double validation_fraction = 0.0;  // of the training samples, if there are no files for it
  int64_t max_seq_length = 128;      // tokens
  int64_t max_train_samples = 0;     // 0 means all
  int64_t max_eval_samples = 0;      // of the validation data; 0 means all
  bool shuffle = true;
  int64_t data_seed = 42;  // the sampler's seed; by default ReadConfig() sets it to run.seed
  bool dataloader_drop_last = false;
  bool sampler_drop_last = false;          // drops a remainder of samples; false repeats some
  int64_t dataloader_num_workers = 1;      // threads of each rank; 0 means the loop's thread
  int64_t dataloader_prefetch_factor = 2;  // batches ready in advance, per thread
  SampleOrder sample_order = SampleOrder::kTorch;
  OnBadRow on_bad_row = OnBadRow::kError;
  std::string tokenizer;  // a folder; "" means bytes
  // "" means "text" (jsonl), "messages" (chat), or detected (text_classification).
  std::string text_column;
  ChatTemplateType chat_template = ChatTemplateType::kChatml;
  bool packing = false;          // chat: several conversations in a sample
  std::string text_pair_column;  // text_classification
  bool length_grouped = false;
  bool token_type_ids = true;  // text_classification: the input says which text a token is of
  std::vector<std::string> feature_columns;      // csv; empty means all others
  std::vector<std::string> categorical_columns;  // csv, besides columns without any number
  int64_t max_categories = 100;                  // csv, of a column
  std::string label_column;                      // csv, text_classification
  std::string weight_column;                     // csv; empty means that all rows count alike
  TargetType target_type = TargetType::kClass;
  OnMissing on_missing = OnMissing::kError;
  std::string delimiter = ",";
  bool standardize = false;         // csv: by the training data's mean and deviation
  bool standardize_target = false;  // csv, a number: in the same way
  std::vector<std::string> labels;  // names of the classes in order; empty means from the data

  int64_t image_size = 0;          // image_folder: height and width in pixels
  std::vector<double> image_mean;  // one for each channel, or one for all; pixels are 0 to 1
  std::vector<double> image_std;
  int64_t random_crop_padding = 0;  // pixels on each side; 0 means no random crop
  bool random_flip = false;
  bool random_resized_crop = false;

  int64_t num_samples = 0;    // random: size of the data set
  int64_t input_size = 0;     // random: values per sample
  int64_t target_size = 0;    // random: values per target
  int64_t dataset_seed = 42;  // random; by default ReadConfig() sets it to data_seed

  std::string plugin;  // plugin: the shared object; "" means the model's
  JsonText options;    // plugin: passed to its code
};

}  // namespace ddprun::trainer
