// What it is trained on.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

std::vector<Key> DataKeys() {
  return {
      {.section = "data",
       .name = "format",
       .slot = At<&Config::data, &DataConfig::format>,
       .meaning = "\"text\": files read by bytes; \"random\": tensors of random numbers.",
       .aliases = {{"dataset_type", "torchtitan"}}},
      {.section = "data",
       .name = "shuffle",
       .slot = At<&Config::data, &DataConfig::shuffle>,
       .meaning = "Draws a new order of the training samples for every epoch."},
      {.section = "data",
       .name = "data_seed",
       .slot = At<&Config::data, &DataConfig::data_seed>,
       .meaning = "Seed of the sample order, to change weights and order one at a time.",
       .range = AtLeast(0),
       .derived_default = "run.seed"},
      {.section = "data",
       .name = "dataloader_drop_last",
       .slot = At<&Config::data, &DataConfig::dataloader_drop_last>,
       .meaning = "Leaves out the last, incomplete batch of an epoch instead of padding it.",
       .aliases = {{"drop_last", "PyTorch"}}},
  };
}

std::vector<Key> TextDataKeys() {
  return {
      {.section = "data",
       .name = "train_files",
       .slot = At<&Config::data, &DataConfig::train_files>,
       .meaning = "Globs of the training files, relative to the config file's folder.",
       .only_for = "data.format",
       .only_values = {"text"},
       .input_path = true,
       .aliases = {{"data_files", "Hugging Face"},
                   {"train_file", "Hugging Face"},
                   {"train-sets", "Marian"},
                   {"dataset", "nanoGPT"}}},
      {.section = "data",
       .name = "validation_files",
       .slot = At<&Config::data, &DataConfig::validation_files>,
       .meaning = "Globs of the validation files, relative to the config file's folder.",
       .only_for = "data.format",
       .only_values = {"text"},
       .input_path = true,
       .aliases = {{"validation_file", "Hugging Face"},
                   {"eval_files", "Hugging Face"},
                   {"valid-sets", "Marian"}}},
      {.section = "data",
       .name = "validation_fraction",
       .slot = At<&Config::data, &DataConfig::validation_fraction>,
       .meaning = "Share of the training text, taken from its end, that is kept for validation; "
                  "for configs without data.validation_files.",
       .range = kBelowOne,
       .only_for = "data.format",
       .only_values = {"text"},
       .aliases = {{"val_split", "PyTorch examples"}, {"validation_split", "Keras"}}},
      {.section = "data",
       .name = "max_seq_length",
       .slot = At<&Config::data, &DataConfig::max_seq_length>,
       .meaning = "Length of a training sequence; memory and time of attention grow with its "
                  "square.",
       .unit = "tokens",
       .range = Between(1, 1 << 20),
       .only_for = "data.format",
       .only_values = {"text"},
       .aliases = {{"block_size", "nanoGPT"},
                   {"seq_len", "torchtitan"},
                   {"max_context_length", "torchtitan"},
                   {"n_positions", "GPT-2"}}},
  };
}

std::vector<Key> RandomDataKeys() {
  return {
      {.section = "data",
       .name = "num_samples",
       .slot = At<&Config::data, &DataConfig::num_samples>,
       .meaning = "Samples of the random data set.",
       .unit = "samples",
       .range = kSizeOrZero,
       .only_for = "data.format",
       .only_values = {"random"}},
      {.section = "data",
       .name = "input_size",
       .slot = At<&Config::data, &DataConfig::input_size>,
       .meaning = "Numbers per random sample; the first of model.layer_sizes.",
       .range = kSizeOrZero,
       .only_for = "data.format",
       .only_values = {"random"}},
      {.section = "data",
       .name = "target_size",
       .slot = At<&Config::data, &DataConfig::target_size>,
       .meaning = "Numbers per random target; the last of model.layer_sizes.",
       .range = kSizeOrZero,
       .only_for = "data.format",
       .only_values = {"random"}},
  };
}

}  // namespace ddprun::trainer
