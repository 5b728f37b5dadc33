// Section "data" of a config; see config.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::trainer {

enum class DataFormat { kText, kRandom };

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
  int64_t num_samples = 0;  // random: samples of the data set
  int64_t input_size = 0;   // random: values per sample
  int64_t target_size = 0;  // random: values per target
};

}  // namespace ddprun::trainer
