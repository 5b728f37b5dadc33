// Keys of training data: texts and tables.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

namespace {

using Formats = std::vector<std::string_view>;

// Values of data.format: all that read files, then groups of them.
const Formats kFiles = {"text",  "jsonl", "chat",    "tokens",   "text_classification",
                        "csv",   "idx",   "cifar10", "cifar100", "image_folder",
                        "plugin"};
const Formats kTokens = {"text", "jsonl", "chat", "tokens", "text_classification"};
const Formats kRows = {"jsonl", "chat", "text_classification", "csv", "image_folder"};

}  // namespace

std::vector<Key> DataKeys() {
  return {
      {.DDPRUN_KEY(data, format),
       .meaning = "What the files are, see docs/data.md: \"text\", \"jsonl\" and \"tokens\" for "
                  "language models; \"chat\": conversations, of which the answers are learned; "
                  "\"text_classification\": labelled texts, or pairs of them; "
                  "\"csv\" for tables; \"idx\", \"cifar10\", \"cifar100\" and "
                  "\"image_folder\" for images; \"random\": tensors of random numbers; \"plugin\": "
                  "a data set of your own in C++.",
       .aliases = {{"dataset_type name", "torchtitan"}, {"type", "PyTorch examples"}}},
      {.DDPRUN_KEY(data, shuffle),
       .meaning = "Draws a new order of the training samples for every epoch."},
      {.DDPRUN_KEY(data, data_seed),
       .meaning = "Seed of the sample order, and of random numbers for images. PyTorch's "
                  "DistributedSampler has 0.",
       .range = AtLeast(0),
       .derived_default = "run.seed",
       .aliases = {{"seed", "PyTorch"}, {"sampler_seed", "PyTorch examples"}}},
      {.DDPRUN_KEY(data, sample_order),
       .meaning =
           "\"torch\": the order of PyTorch's DistributedSampler. "
           "\"world_size_independent\": the same, but the last step of an epoch is filled up "
           "(or dropped) as a whole, so that every step has the same samples for any number "
           "of ranks with the same global batch."},
      {.DDPRUN_KEY(data, dataloader_drop_last),
       .meaning = "Leaves out the last batch of an epoch if it is smaller than the others, as "
                  "drop_last of PyTorch's DataLoader.",
       .aliases = {{"drop_last", "PyTorch"}}},
      {.DDPRUN_KEY(data, sampler_drop_last),
       .meaning = "Leaves out samples at the end of an epoch that cannot be divided evenly among "
                  "the ranks, as drop_last of PyTorch's DistributedSampler. Otherwise the first "
                  "samples of the order come again, so that every rank gets the same number.",
       .only_for = {"data.sample_order", {"torch"}}},
      {.DDPRUN_KEY(data, dataloader_num_workers),
       .meaning = "Threads of each rank that prepare batches beside the training; use more to "
                  "decode images. 0: the training thread prepares them.",
       .unit = "threads",
       .range = Between(0, 256),
       .aliases = {{"num_workers", "PyTorch"},
                   {"workers n_workers", "PyTorch examples"},
                   {"preprocessing_num_workers", "Hugging Face"}}},
      {.DDPRUN_KEY(data, dataloader_prefetch_factor),
       .meaning = "Batches that each of these threads prepares in advance.",
       .unit = "batches",
       .range = Between(1, 1024),
       .aliases = {{"prefetch_factor", "PyTorch"}}},
  };
}

std::vector<Key> FileDataKeys() {
  return {
      {.DDPRUN_KEY(data, train_files),
       .meaning = "Globs of the training files, relative to the config file's folder.",
       .only_for = {"data.format", kFiles},
       .input_path = true,
       .aliases = {{"data_files train_file dataset_name train_dataset", "Hugging Face"},
                   {"train-sets", "Marian"},
                   {"dataset", "nanoGPT"},
                   {"path data_dir data_path train_data train_dir files", "PyTorch examples"},
                   {"dataset_path", "torchtitan"},
                   {"root", "torchvision"},
                   {"input_bin", "llm.c"}}},
      {.DDPRUN_KEY(data, validation_files),
       .meaning = "Globs of the validation files, relative to the config file's folder.",
       .only_for = {"data.format", kFiles},
       .input_path = true,
       .aliases = {{"validation_file eval_files eval_dataset eval_file", "Hugging Face"},
                   {"valid-sets", "Marian"},
                   {"val_files val_data val_dir", "PyTorch examples"},
                   {"input_val_bin", "llm.c"}}},
      {.DDPRUN_KEY(data, test_files),
       .meaning = "Globs of the test files, on which the model is evaluated once, at the end of "
                  "the run. Relative to the config file's folder.",
       .only_for = {"data.format", kFiles},
       .input_path = true,
       .aliases = {{"test_file test_dataset", "Hugging Face"},
                   {"test_data test_dir", "PyTorch examples"}}},
      {.DDPRUN_KEY(data, validation_fraction),
       .meaning = "Share of the training samples that is kept for validation: the end of text "
                  "and token files, in other formats samples at equal distances. For configs "
                  "without data.validation_files.",
       .range = kBelowOne,
       .only_for = {"data.format", kFiles},
       .aliases = {{"val_split val_fraction val_ratio", "PyTorch examples"},
                   {"validation_split", "Keras"},
                   {"test_size", "scikit-learn"},
                   {"validation_split_percentage", "Hugging Face", "There it is in percent."}}},
      {.DDPRUN_KEY(data, max_train_samples),
       .meaning = "Trains on so many samples only: the beginning of text and token files, in other "
                  "formats samples at equal distances. 0: all.",
       .unit = "samples",
       .range = kSizeOrZero,
       .aliases = {{"limit_train_batches overfit_batches", "Lightning",
                    "Here it is a number of samples."}}},
      {.DDPRUN_KEY(data, max_eval_samples),
       .meaning = "Evaluates on so many samples of the validation data only, chosen as those of "
                  "data.max_train_samples. 0: all.",
       .unit = "samples",
       .range = kSizeOrZero,
       .aliases = {{"limit_val_batches", "Lightning", "Here it is a number of samples."},
                   {"eval_iters", "nanoGPT", "There it is a number of batches."},
                   {"val_max_steps", "llm.c", "There it is a number of batches."}}},
      {.DDPRUN_KEY(data, on_bad_row),
       .meaning = "A row or an image that cannot be read: \"error\" ends the run with the file "
                  "and line, \"skip\" leaves it out and counts it. With \"skip\" all images are "
                  "decoded once at the start.",
       .only_for = {"data.format", kRows}},
  };
}

std::vector<Key> TextDataKeys() {
  return {
      {.DDPRUN_KEY(data, max_seq_length),
       .meaning = "Length of a training sequence; memory and time of attention grow with its "
                  "square.",
       .unit = "tokens",
       .range = Between(1, 1 << 20),
       .only_for = {"data.format", kTokens},
       .aliases = {{"block_size", "nanoGPT"},
                   {"seq_len max_context_length max_seq_len", "torchtitan"},
                   {"n_positions", "GPT-2"},
                   {"seq_length", "Megatron"},
                   {"sequence_length", "llm.c"},
                   {"context_length max_len", "PyTorch examples"},
                   {"max_length model_max_length", "Hugging Face"}}},
      {.DDPRUN_KEY(data, tokenizer),
       .meaning = "Folder of the tokenizer's files, in Hugging Face's layout. Without it, "
                  "\"chat\" and \"text_classification\" take that of model.name_or_path, and "
                  "\"text\" is read by bytes.",
       .only_for = {"data.format", {"text", "jsonl", "chat", "text_classification"}},
       .input_path = true,
       .aliases = {{"tokenizer_name tokenizer_name_or_path vocab_file", "Hugging Face"},
                   {"tokenizer_path", "torchtitan"}}},
      {.DDPRUN_KEY(data, text_column),
       .meaning = "The column of the text, of the messages, or of the first text of a pair. Empty: "
                  "\"text\" for \"jsonl\" and \"messages\" for \"chat\"; else sentence1, premise, "
                  "question1, question, sentence or text.",
       .only_for = {"data.format", {"jsonl", "chat", "text_classification"}},
       .aliases = {{"text_column_name", "Hugging Face"},
                   {"dataset_text_field", "TRL"},
                   {"text_field", "PyTorch examples"}}},
      {.DDPRUN_KEY(data, chat_template),
       .meaning = "How a conversation is written as text: with the tokens of ChatML or of Llama 3, "
                  "or as Zephyr does, which only needs a token that ends a document.",
       .only_for = {"data.format", {"chat"}},
       .aliases = {{"chat_template_path", "TRL", "One of the words of data.chat_template."},
                   {"template", "LLaMA-Factory"}}},
      {.DDPRUN_KEY(data, packing),
       .meaning = "Puts several conversations into each sample, as many as data.max_seq_length has "
                  "room for, so that little padding is computed. A token attends to its own "
                  "conversation alone. Batches then count these samples.",
       .only_for = {"data.format", {"chat"}},
       .aliases = {{"eval_packing", "TRL"},
                   {"sample_packing", "Axolotl"},
                   {"packed", "torchtune"},
                   {"neat_packing", "LLaMA-Factory"}}},
      {.DDPRUN_KEY(data, text_pair_column),
       .meaning = "The column of the second text of a pair. Empty: sentence2, hypothesis, "
                  "question2 or sentence, if data.text_column is empty, too.",
       .only_for = {"data.format", {"text_classification"}}},
      {.DDPRUN_KEY(data, length_grouped),
       .meaning = "Puts texts of similar length into one batch, so that less padding is computed; "
                  "needs data.shuffle.",
       .only_for = {"data.format", {"chat", "text_classification"}},
       .aliases = {{"group_by_length", "Hugging Face"}}},
      {.DDPRUN_KEY(data, token_type_ids),
       .meaning = "Tells the model to which of the two texts a token belongs. Off: every token "
                  "counts as one of the first text, as in a script that gives a Hugging Face "
                  "model only input_ids and attention_mask.",
       .only_for = {"data.format", {"text_classification"}},
       .aliases = {{"return_token_type_ids", "Hugging Face"}}},
  };
}

std::vector<Key> CsvDataKeys() {
  return {
      {.DDPRUN_KEY(data, label_column),
       .meaning = "The column to predict. Empty: gold_label or label, for "
                  "\"text_classification\".",
       .only_for = {"data.format", {"csv", "text_classification"}},
       .aliases = {{"target_column", "AutoML"},
                   {"label_column_name", "Hugging Face"},
                   {"label target", "PyTorch examples"}}},
      {.DDPRUN_KEY(data, feature_columns),
       .meaning = "The columns to predict from, by name; empty: all others.",
       .only_for = {"data.format", {"csv"}},
       .aliases = {{"features", "PyTorch examples"}}},
      {.DDPRUN_KEY(data, weight_column),
       .meaning = "A column of positive numbers: how much each row counts in the loss, which is "
                  "the weighted mean over all rows of a step, as with sample_weight in "
                  "scikit-learn. Evaluations weigh their loss alike; metrics count each row once. "
                  "Empty: all rows count alike.",
       .only_for = {"data.format", {"csv"}},
       .aliases = {{"sample_weight", "scikit-learn"},
                   {"sample_weights", "PyTorch examples"},
                   {"weight_col", "Spark"}}},
      {.DDPRUN_KEY(data, categorical_columns),
       .meaning = "Feature columns whose values are names, also if they are written as numbers: "
                  "each value of the training data becomes an input, 1 for its rows and 0 for "
                  "others. Columns without any number are always categorical.",
       .only_for = {"data.format", {"csv"}},
       .aliases = {{"cat_features", "CatBoost"}, {"categorical_feature", "LightGBM"}}},
      {.DDPRUN_KEY(data, max_categories),
       .meaning = "Different values that a column of categories may have; a column with more, as "
                  "names of persons, is an error.",
       .range = Between(1, 65536),
       .only_for = {"data.format", {"csv"}}},
      {.DDPRUN_KEY(data, target_type),
       .meaning = "\"class\": the values of data.label_column are names; \"number\": they are "
                  "numbers, for regression.",
       .only_for = {"data.format", {"csv"}}},
      {.DDPRUN_KEY(data, labels),
       .meaning = "The classes by name, in the order of the model's outputs; empty: those of "
                  "model.name_or_path's id2label, or else of the training data, sorted.",
       .only_for = {"data.format", {"csv", "idx", "image_folder", "text_classification"}}},
      {.DDPRUN_KEY(data, delimiter),
       .meaning = "The character between two fields: \",\", \";\", or a tab.",
       .only_for = {"data.format", {"csv"}},
       .aliases = {{"sep", "pandas"}, {"separator", "PyTorch examples"}}},
      {.DDPRUN_KEY(data, on_missing),
       .meaning = "An empty field, NA, NaN, null or ?: \"error\" ends the run, \"skip\" leaves "
                  "out its row, \"mean\" takes the column's mean over the training data; for "
                  "categories, the share of each.",
       .only_for = {"data.format", {"csv"}}},
      {.DDPRUN_KEY(data, standardize_target),
       .meaning = "Trains on (y - mean) / deviation of the numbers y to predict, with mean and "
                  "deviation of the training data, so that large numbers are learned as fast as "
                  "small ones. Losses are those of the standardized numbers; metrics and "
                  "predictions are in the column's own unit.",
       .only_for = {"data.format", {"csv"}},
       .aliases = {{"normalize_target scale_target", "PyTorch examples"}}},
      {.DDPRUN_KEY(data, standardize),
       .meaning = "Scales feature columns of numbers to mean 0, deviation 1 in the training data.",
       .only_for = {"data.format", {"csv"}},
       .aliases = {{"normalize", "PyTorch examples"}}},
  };
}

}  // namespace ddprun::trainer
