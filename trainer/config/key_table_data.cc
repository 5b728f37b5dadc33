// What it is trained on.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

namespace {

using Words = std::vector<std::string_view>;

// The values of data.format that read files, and those among them whose samples are rows or images.
const Words kFiles = {"text", "jsonl",   "tokens",   "text_classification", "csv",
                      "idx",  "cifar10", "cifar100", "image_folder",        "plugin"};
const Words kTokens = {"text", "jsonl", "tokens", "text_classification"};
const Words kRows = {"jsonl", "text_classification", "csv", "image_folder"};
const Words kImages = {"idx", "cifar10", "cifar100", "image_folder"};

}  // namespace

std::vector<Key> DataKeys() {
  return {
      {.section = "data",
       .name = "format",
       .slot = At<&Config::data, &DataConfig::format>,
       .meaning = "What the files are, see docs/data.md: \"text\", \"jsonl\" and \"tokens\" for "
                  "language models; \"text_classification\": labelled texts, or pairs of them; "
                  "\"csv\" for tables; \"idx\", \"cifar10\", \"cifar100\" and "
                  "\"image_folder\" for images; \"random\": tensors of random numbers; \"plugin\": "
                  "a data set of your own in C++.",
       .aliases = {{"dataset_type", "torchtitan"}}},
      {.section = "data",
       .name = "shuffle",
       .slot = At<&Config::data, &DataConfig::shuffle>,
       .meaning = "Draws a new order of the training samples for every epoch."},
      {.section = "data",
       .name = "data_seed",
       .slot = At<&Config::data, &DataConfig::data_seed>,
       .meaning =
           "Seed of the sample order, and of what is drawn for images, to change weights and "
           "order one at a time. PyTorch's DistributedSampler has 0.",
       .range = AtLeast(0),
       .derived_default = "run.seed"},
      {.section = "data",
       .name = "sample_order",
       .slot = At<&Config::data, &DataConfig::sample_order>,
       .meaning =
           "\"torch\": the order of PyTorch's DistributedSampler. "
           "\"world_size_independent\": the same, but the last step of an epoch is filled up "
           "(or dropped) as a whole, so that every step has the same samples for any number "
           "of ranks with the same global batch."},
      {.section = "data",
       .name = "dataloader_drop_last",
       .slot = At<&Config::data, &DataConfig::dataloader_drop_last>,
       .meaning = "Leaves out the last batch of an epoch where it is smaller than the others, as "
                  "drop_last of PyTorch's DataLoader.",
       .aliases = {{"drop_last", "PyTorch"}}},
      {.section = "data",
       .name = "sampler_drop_last",
       .slot = At<&Config::data, &DataConfig::sampler_drop_last>,
       .meaning = "Leaves out the samples at the end of an epoch, fewer than there are ranks, that "
                  "cannot be shared out evenly, as drop_last of PyTorch's DistributedSampler. "
                  "Without it every rank gets equally many because the first samples of the order "
                  "come once more.",
       .only_for = "data.sample_order",
       .only_values = {"torch"}},
  };
}

std::vector<Key> LoaderKeys() {
  return {
      {.section = "data",
       .name = "dataloader_num_workers",
       .slot = At<&Config::data, &DataConfig::dataloader_num_workers>,
       .meaning = "Threads of each rank that prepare batches beside the training; more for images "
                  "to decode. 0: the training thread does it itself.",
       .unit = "threads",
       .range = Between(0, 256),
       .aliases = {{"num_workers", "PyTorch"}}},
      {.section = "data",
       .name = "dataloader_prefetch_factor",
       .slot = At<&Config::data, &DataConfig::dataloader_prefetch_factor>,
       .meaning = "Batches that each of these threads may be ahead of need.",
       .unit = "batches",
       .range = Between(1, 1024),
       .aliases = {{"prefetch_factor", "PyTorch"}}},
  };
}

std::vector<Key> FileDataKeys() {
  return {
      {.section = "data",
       .name = "train_files",
       .slot = At<&Config::data, &DataConfig::train_files>,
       .meaning = "Globs of the training files, relative to the config file's folder.",
       .only_for = "data.format",
       .only_values = kFiles,
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
       .only_values = kFiles,
       .input_path = true,
       .aliases = {{"validation_file", "Hugging Face"},
                   {"eval_files", "Hugging Face"},
                   {"valid-sets", "Marian"}}},
      {.section = "data",
       .name = "validation_fraction",
       .slot = At<&Config::data, &DataConfig::validation_fraction>,
       .meaning = "Share of the training samples, taken from their end, that is kept for "
                  "validation; for configs without data.validation_files.",
       .range = kBelowOne,
       .only_for = "data.format",
       .only_values = kFiles,
       .aliases = {{"val_split", "PyTorch examples"}, {"validation_split", "Keras"}}},
      {.section = "data",
       .name = "on_bad_row",
       .slot = At<&Config::data, &DataConfig::on_bad_row>,
       .meaning =
           "What a row or an image that cannot be read does: \"error\" ends the run with the "
           "file and line, \"skip\" leaves it out and counts it; for that, all images are "
           "decoded once at the start.",
       .only_for = "data.format",
       .only_values = kRows},
  };
}

std::vector<Key> TextDataKeys() {
  return {
      {.section = "data",
       .name = "max_seq_length",
       .slot = At<&Config::data, &DataConfig::max_seq_length>,
       .meaning = "Length of a training sequence; memory and time of attention grow with its "
                  "square.",
       .unit = "tokens",
       .range = Between(1, 1 << 20),
       .only_for = "data.format",
       .only_values = kTokens,
       .aliases = {{"block_size", "nanoGPT"},
                   {"seq_len", "torchtitan"},
                   {"max_context_length", "torchtitan"},
                   {"n_positions", "GPT-2"}}},
      {.section = "data",
       .name = "tokenizer",
       .slot = At<&Config::data, &DataConfig::tokenizer>,
       .meaning = "Folder of the tokenizer's files, as Hugging Face has them. Without it, "
                  "model.name_or_path's is taken for \"text_classification\", and \"text\" is read "
                  "by bytes.",
       .only_for = "data.format",
       .only_values = {"text", "jsonl", "text_classification"},
       .input_path = true,
       .aliases = {{"tokenizer_name", "Hugging Face"}}},
      {.section = "data",
       .name = "text_column",
       .slot = At<&Config::data, &DataConfig::text_column>,
       .meaning = "The column that holds the text, or the first of a pair. Empty: \"text\" for "
                  "\"jsonl\"; else sentence1, premise, question1, question, sentence or text.",
       .only_for = "data.format",
       .only_values = {"jsonl", "text_classification"}},
      {.section = "data",
       .name = "text_pair_column",
       .slot = At<&Config::data, &DataConfig::text_pair_column>,
       .meaning = "The column that holds the second text of a pair. Empty: sentence2, hypothesis, "
                  "question2 or sentence, where data.text_column is empty too.",
       .only_for = "data.format",
       .only_values = {"text_classification"}},
      {.section = "data",
       .name = "length_grouped",
       .slot = At<&Config::data, &DataConfig::length_grouped>,
       .meaning = "Puts texts of similar length into one batch, so that less padding is computed; "
                  "needs data.shuffle.",
       .only_for = "data.format",
       .only_values = {"text_classification"},
       .aliases = {{"group_by_length", "Hugging Face"}}},
      {.section = "data",
       .name = "token_type_ids",
       .slot = At<&Config::data, &DataConfig::token_type_ids>,
       .meaning = "Tells the model which of the two texts a token belongs to. Off: every token "
                  "counts as one of the first text, as where a script passes a Hugging Face model "
                  "input_ids and attention_mask alone.",
       .only_for = "data.format",
       .only_values = {"text_classification"},
       .aliases = {{"return_token_type_ids", "Hugging Face"}}},
  };
}

std::vector<Key> CsvDataKeys() {
  return {
      {.section = "data",
       .name = "label_column",
       .slot = At<&Config::data, &DataConfig::label_column>,
       .meaning = "The column to predict. Empty: gold_label or label, for "
                  "\"text_classification\".",
       .only_for = "data.format",
       .only_values = {"csv", "text_classification"},
       .aliases = {{"target_column", "AutoML"}}},
      {.section = "data",
       .name = "feature_columns",
       .slot = At<&Config::data, &DataConfig::feature_columns>,
       .meaning = "The columns to predict from, by name; all others where empty.",
       .only_for = "data.format",
       .only_values = {"csv"}},
      {.section = "data",
       .name = "categorical_columns",
       .slot = At<&Config::data, &DataConfig::categorical_columns>,
       .meaning = "Feature columns whose values are names, also where they are written as numbers: "
                  "each value of the training data becomes an input, 1 for its rows and 0 for "
                  "others. Columns without any number are taken so anyway.",
       .only_for = "data.format",
       .only_values = {"csv"},
       .aliases = {{"cat_features", "CatBoost"}, {"categorical_feature", "LightGBM"}}},
      {.section = "data",
       .name = "max_categories",
       .slot = At<&Config::data, &DataConfig::max_categories>,
       .meaning = "Different values that a column of categories may have; one with more, as names "
                  "of persons, is an error.",
       .range = Between(1, 65536),
       .only_for = "data.format",
       .only_values = {"csv"}},
      {.section = "data",
       .name = "target_type",
       .slot = At<&Config::data, &DataConfig::target_type>,
       .meaning =
           "\"class\": the values of data.label_column are names; \"number\": numbers to come "
           "close to.",
       .only_for = "data.format",
       .only_values = {"csv"}},
      {.section = "data",
       .name = "labels",
       .slot = At<&Config::data, &DataConfig::labels>,
       .meaning = "The classes by name, in the order of the model's outputs; where empty, those of "
                  "model.name_or_path's label2id, or else of the training data, sorted.",
       .only_for = "data.format",
       .only_values = {"csv", "idx", "image_folder", "text_classification"}},
      {.section = "data",
       .name = "delimiter",
       .slot = At<&Config::data, &DataConfig::delimiter>,
       .meaning = "The character between two fields: \",\", \";\", or a tab.",
       .only_for = "data.format",
       .only_values = {"csv"}},
      {.section = "data",
       .name = "on_missing",
       .slot = At<&Config::data, &DataConfig::on_missing>,
       .meaning = "What an empty field, NA, NaN, null or ? does: \"error\", \"skip\" its row, or "
                  "take the column's \"mean\" over the training data; of categories, each one's "
                  "share.",
       .only_for = "data.format",
       .only_values = {"csv"}},
      {.section = "data",
       .name = "standardize",
       .slot = At<&Config::data, &DataConfig::standardize>,
       .meaning = "Scales feature columns of numbers to mean 0, deviation 1 in the training data.",
       .only_for = "data.format",
       .only_values = {"csv"}},
  };
}

std::vector<Key> ImageDataKeys() {
  return {
      {.section = "data",
       .name = "image_size",
       .slot = At<&Config::data, &DataConfig::image_size>,
       .meaning = "Height and width that images are brought to: the shorter side is scaled, the "
                  "middle is cut out. 0: all images of the folder have one size.",
       .unit = "pixels",
       .range = Between(0, 8192),
       .only_for = "data.format",
       .only_values = {"image_folder"}},
      {.section = "data",
       .name = "image_mean",
       .slot = At<&Config::data, &DataConfig::image_mean>,
       .meaning = "Subtracted from pixels between 0 and 1, per channel or once for all.",
       .range = Between(-1e6, 1e6),
       .only_for = "data.format",
       .only_values = kImages},
      {.section = "data",
       .name = "image_std",
       .slot = At<&Config::data, &DataConfig::image_std>,
       .meaning = "What they are then divided by, per channel or once for all.",
       .range = {.min = 0, .max = 1e6, .min_excluded = true},
       .only_for = "data.format",
       .only_values = kImages},
      {.section = "data",
       .name = "random_crop_padding",
       .slot = At<&Config::data, &DataConfig::random_crop_padding>,
       .meaning = "Training images get this many black pixels on each side, and a random part of "
                  "the old size is cut out.",
       .unit = "pixels",
       .range = Between(0, 1024),
       .only_for = "data.format",
       .only_values = kImages},
      {.section = "data",
       .name = "random_flip",
       .slot = At<&Config::data, &DataConfig::random_flip>,
       .meaning = "Half of the training images are mirrored, left and right.",
       .only_for = "data.format",
       .only_values = kImages},
      {.section = "data",
       .name = "random_resized_crop",
       .slot = At<&Config::data, &DataConfig::random_resized_crop>,
       .meaning = "Training images are random parts, 8 % to all of the area, scaled to "
                  "data.image_size.",
       .only_for = "data.format",
       .only_values = {"image_folder"}},
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
      {.section = "data",
       .name = "random_seed",
       .slot = At<&Config::data, &DataConfig::random_seed>,
       .meaning = "Seed of the random data set's numbers.",
       .range = AtLeast(0),
       .derived_default = "data.data_seed",
       .only_for = "data.format",
       .only_values = {"random"}},
  };
}

std::vector<Key> PluginDataKeys() {
  return {
      {.section = "data",
       .name = "plugin",
       .slot = At<&Config::data, &DataConfig::plugin>,
       .meaning = "Shared object with the data set: docs/plugins.md. Empty: the one of model.path.",
       .only_for = "data.format",
       .only_values = {"plugin"},
       .input_path = true},
      {.section = "data",
       .name = "options",
       .slot = At<&Config::data, &DataConfig::options>,
       .meaning = "What the plugin's data set is given as it stands here.",
       .only_for = "data.format",
       .only_values = {"plugin"}},
  };
}

}  // namespace ddprun::trainer
