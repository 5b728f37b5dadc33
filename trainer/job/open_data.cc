#include "trainer/job/open_data.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/cpus.h"
#include "base/failure.h"
#include "base/text.h"
#include "base/unnamed_file.h"
#include "trainer/config/slot.h"
#include "trainer/data/chat_dataset.h"
#include "trainer/data/csv_dataset.h"
#include "trainer/data/data_files.h"
#include "trainer/data/image_arrays.h"
#include "trainer/data/image_folder.h"
#include "trainer/data/pair_dataset.h"
#include "trainer/data/random_dataset.h"
#include "trainer/data/text_dataset.h"
#include "trainer/data/token_dataset.h"
#include "trainer/job/step_plan.h"
#include "trainer/plugin/plugin_dataset.h"
#include "trainer/text/file_stream.h"
#include "trainer/text/tokenize_files.h"
#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {

namespace {

// Tokenizes once for all ranks of the node. Ranks map the ids from a file without a name, so that
// the system can take their memory back. The file ends with the last rank.
std::unique_ptr<Dataset> OpenTokenized(const DataConfig& data,
                                       const std::vector<std::string>& files) {
  const auto tokenizer = LoadTokenizer(data.tokenizer);
  TokenizeOptions options;
  options.output = TemporaryFolder();
  const UniqueFd ids = ValueOrThrow(OpenUnnamedFile(options.output));
  options.output_fd = ids.get();
  options.files = files;
  options.is_rows.assign(options.files.size(), data.format == DataFormat::kJsonLines);
  if (!data.text_column.empty()) options.json_key = data.text_column;
  options.separator = tokenizer->special().eos;
  options.skip_bad_rows = data.on_bad_row == OnBadRow::kSkip;
  options.bad_row_hint =
      "Name another key with data.text_column, correct the row, or set data.on_bad_row to "
      "\"skip\".";
  options.format = TokenFileFormat::kBare;
  options.threads = CoreCount();
  const TokenizeProgress done = TokenizeFiles(*tokenizer, options, [](const auto&) {});
  const std::string path = "/proc/self/fd/" + std::to_string(ids.get());
  std::vector<std::string> notes;
  if (done.bad_rows > 0) {
    notes.push_back(CountText(done.bad_rows, "row") + " skipped that cannot be read");
  }
  return std::make_unique<TokenDataset>(TokenDatasetOptions{.files = {path},
                                                            .bytes_per_token = done.bytes_per_token,
                                                            .sequence_length = data.max_seq_length,
                                                            .vocab_size = tokenizer->vocab_size(),
                                                            .notes = std::move(notes)});
}

// Predictions are one for each row.
bool SkipsBadRows(const DataConfig& data, Targets targets) {
  return targets == Targets::kRead && data.on_bad_row == OnBadRow::kSkip;
}

OnMissing OnMissingOf(const DataConfig& data, Targets targets) {
  const bool skips = data.on_missing == OnMissing::kSkip;
  return skips && targets == Targets::kNone ? OnMissing::kError : data.on_missing;
}

// Returns the data's labels, or else the given model's, so that its outputs keep their meaning.
std::vector<std::string> LabelsOf(const Job& job, const Dataset* training) {
  if (training != nullptr) return training->shape().labels;
  const auto* bert = std::get_if<BertOptions>(&job.model);
  return job.config.data.labels.empty() && bert != nullptr ? bert->labels : job.config.data.labels;
}

std::unique_ptr<Dataset> OpenPairs(const Job& job,
                                   const std::vector<std::string>& files,
                                   const Dataset* training,
                                   Targets targets) {
  const DataConfig& data = job.config.data;
  const std::string& folder =
      data.tokenizer.empty() ? job.config.model.name_or_path : data.tokenizer;
  return std::make_unique<PairDataset>(
      PairDatasetOptions{.files = files,
                         .columns = {data.text_column, data.text_pair_column, data.label_column,
                                     targets == Targets::kRead},
                         .labels = LabelsOf(job, training),
                         .classes = job.config.model.num_labels,
                         .max_length = data.max_seq_length,
                         .token_types = data.token_type_ids,
                         .skip_bad_rows = SkipsBadRows(data, targets)},
      LoadTokenizer(folder));
}

std::unique_ptr<Dataset> OpenChats(const Config& config, const std::vector<std::string>& files) {
  const DataConfig& data = config.data;
  ChatDatasetOptions options{.files = files,
                             .chat_template = std::string(Word(data.chat_template)),
                             .max_length = data.max_seq_length,
                             .packs = data.packing,
                             .skip_bad_rows = data.on_bad_row == OnBadRow::kSkip};
  if (!data.text_column.empty()) options.column = data.text_column;
  return std::make_unique<ChatDataset>(
      options, LoadTokenizer(data.tokenizer.empty() ? config.model.name_or_path : data.tokenizer));
}

// Returns the table whose training rows decided measures and categories; nullptr if there is none.
const CsvDataset* TableOf(const Dataset* training) {
  const auto* part = dynamic_cast<const DatasetPart*>(training);
  return static_cast<const CsvDataset*>(part == nullptr ? training : &part->whole());
}

// `takes` is CsvDatasetOptions::takes.
std::unique_ptr<Dataset> OpenTable(const DataConfig& data,
                                   const std::vector<std::string>& files,
                                   const Dataset* training,
                                   Targets targets = Targets::kRead,
                                   std::function<bool(int64_t row)> takes = nullptr) {
  const CsvDataset* table = TableOf(training);
  const CsvDatasetOptions options{.files = files,
                                  .delimiter = data.delimiter.front(),
                                  .target = data.label_column,
                                  .weight = data.weight_column,
                                  .features = data.feature_columns,
                                  .categorical = data.categorical_columns,
                                  .max_categories = data.max_categories,
                                  .target_is_class = data.target_type == TargetType::kClass,
                                  .labels = data.labels,
                                  .missing = OnMissingOf(data, targets),
                                  .standardize = data.standardize,
                                  .standardize_target = data.standardize_target,
                                  .skip_bad_rows = SkipsBadRows(data, targets),
                                  .encoding = table != nullptr ? &table->encoding() : nullptr,
                                  .with_targets = targets == Targets::kRead,
                                  .takes = std::move(takes)};
  return std::make_unique<CsvDataset>(options);
}

std::unique_ptr<Dataset> OpenPlugin(const Config& config,
                                    const std::vector<std::string>& files,
                                    const Dataset* training) {
  const DataConfig& data = config.data;
  const PluginDataOptions options{.json = data.options.text,
                                  .files = files,
                                  .validation = training != nullptr,
                                  .seed = static_cast<uint64_t>(data.data_seed)};
  const std::string& path = data.plugin.empty() ? config.model.path : data.plugin;
  return std::make_unique<PluginDataset>(LoadPlugin(path), options);
}

ImageOptions ImageOptionsOf(const DataConfig& data) {
  return {.size = data.image_size,
          .mean = data.image_mean,
          .std = data.image_std,
          .random_crop_padding = data.random_crop_padding,
          .random_flip = data.random_flip,
          .random_resized_crop = data.random_resized_crop,
          .seed = static_cast<uint64_t>(data.data_seed)};
}

IdxClasses IdxClassesOf(const DataConfig& data, const Dataset* training) {
  if (training == nullptr) return {static_cast<int64_t>(data.labels.size()), data.labels};
  DataShape shape = training->shape();
  return {shape.classes, std::move(shape.labels)};
}

// Returns the model's number of embeddings, so that the data set finds larger ids; 0 means unknown.
// If there is a tokenizer, its vocabulary is compared instead.
int64_t VocabularyOf(const Job& job) {
  const TransformerOptions* model = TransformerIn(job.model);
  return model == nullptr ? 0 : model->vocab_size;
}

// `training` is the data with which validation data must agree; nullptr for the training data.
std::unique_ptr<Dataset> OpenFiles(const Job& job,
                                   const std::vector<std::string>& patterns,
                                   const Dataset* training,
                                   Targets targets = Targets::kRead) {
  const Config& config = job.config;
  const DataConfig& data = config.data;
  // ImageFolder itself lists the files of its folders.
  const bool folders = data.format == DataFormat::kImageFolder;
  const std::vector<std::string> files = folders ? patterns : ExpandFiles(patterns);
  switch (data.format) {
    case DataFormat::kText:
      if (data.tokenizer.empty()) {
        return std::make_unique<TextDataset>(
            TextDatasetOptions{.files = files, .sequence_length = data.max_seq_length});
      }
      return OpenTokenized(data, files);
    case DataFormat::kJsonLines:
      return OpenTokenized(data, files);
    case DataFormat::kChat:
      return OpenChats(config, files);
    case DataFormat::kTokens:
      return std::make_unique<TokenDataset>(TokenDatasetOptions{
          .files = files, .sequence_length = data.max_seq_length, .vocab_size = VocabularyOf(job)});
    case DataFormat::kTextClassification:
      return OpenPairs(job, files, training, targets);
    case DataFormat::kCsv:
      return OpenTable(data, files, training, targets);
    case DataFormat::kIdx:
      return OpenIdx(files, ImageOptionsOf(data), IdxClassesOf(data, training));
    case DataFormat::kCifar10:
      return OpenCifar(Cifar::k10, files, ImageOptionsOf(data));
    case DataFormat::kCifar100:
      return OpenCifar(Cifar::k100, files, ImageOptionsOf(data));
    case DataFormat::kImageFolder:
      return std::make_unique<ImageFolder>(
          ImageFolderOptions{.patterns = files,
                             .labels = training != nullptr ? training->shape().labels : data.labels,
                             .with_labels = targets == Targets::kRead,
                             .image = ImageOptionsOf(data),
                             .skip_bad_images = SkipsBadRows(data, targets)});
    case DataFormat::kPlugin:
      return OpenPlugin(config, files, training);
    case DataFormat::kRandom:
      break;
  }
  return std::make_unique<RandomDataset>(
      RandomDatasetOptions{.num_samples = data.num_samples,
                           .input_size = data.input_size,
                           .target_size = data.target_size,
                           .seed = static_cast<uint64_t>(data.dataset_seed)});
}

// Data without samples: its shape alone is known.
class DescribedData final : public Dataset {
 public:
  explicit DescribedData(DataShape shape) : shape_(std::move(shape)) {}

  int64_t size() const override { return 0; }
  Batch Get(std::span<const int64_t>) const override { DDPRUN_CHECK(false); }
  DataShape shape() const override { return shape_; }

 private:
  const DataShape shape_;
};

void CheckSameShape(const std::string& files, const DataShape& train, const DataShape& further) {
  if (train.input == further.input) return;
  throw WrongDataFile(
      files,
      "A sample of these files has " + FormatList(further.input, " x ") +
          " values, one of the training data " + FormatList(train.input, " x ") + ".",
      "Take data made as the training data was; data.image_size brings the images of folders to "
      "one size.");
}

// Sets samples aside at equal distances, because files are often sorted by class.
bool IsSetAside(int64_t sample, int64_t count, int64_t size) {
  return (sample + 1) * count / size > sample * count / size;
}

// Reads the files again for each part, so that only training rows decide measures and categories.
void SetRowsAside(const DataConfig& data, int64_t size, int64_t count, Job& job) {
  const std::vector<std::string> files = ExpandFiles(data.train_files);
  job.train = OpenTable(data, files, nullptr, Targets::kRead,
                        [=](int64_t row) { return !IsSetAside(row, count, size); });
  job.validation = OpenTable(data, files, job.train.get(), Targets::kRead,
                             [=](int64_t row) { return IsSetAside(row, count, size); });
}

// Divides the data. Text is cut at one place, so that no sentence is in both parts.
void SetAside(std::unique_ptr<Dataset> whole, int64_t count, Job& job) {
  const int64_t size = whole->size();
  if (whole->tokens_per_sample() > 0) {
    const auto part = [&](int64_t first, int64_t samples) {
      return std::make_unique<DatasetPart>(*whole, samples,
                                           [first](int64_t i) { return first + i; });
    };
    job.train = part(0, size - count);
    job.validation = part(size - count, count);
  } else {
    std::vector<int64_t> train;
    std::vector<int64_t> validation;
    for (int64_t i = 0; i < size; ++i) {
      (IsSetAside(i, count, size) ? validation : train).push_back(i);
    }
    const auto part = [&](std::vector<int64_t> samples) {
      const auto count_of_part = static_cast<int64_t>(samples.size());
      return std::make_unique<DatasetPart>(
          *whole, count_of_part, [places = std::move(samples)](int64_t i) { return places[i]; });
    };
    job.train = part(std::move(train));
    job.validation = part(std::move(validation));
  }
  job.wholes.push_back(std::move(whole));
}

// Replaces `data` by `count` of its samples, if it has more; 0 means all.
void KeepSome(int64_t count, std::unique_ptr<Dataset>& data, Job& job) {
  if (data == nullptr || count == 0 || count >= data->size()) return;
  const int64_t size = data->size();
  const bool first = data->tokens_per_sample() > 0;
  auto part = std::make_unique<DatasetPart>(*data, count, [=](int64_t i) {
    return first ? i : i * size / count;  // files are often sorted by class
  });
  job.wholes.push_back(std::exchange(data, std::move(part)));
}

}  // namespace

void OpenData(Job& job, const Attempt& attempt) {
  const DataConfig& data = job.config.data;
  std::unique_ptr<Dataset> whole;
  attempt([&] { whole = OpenFiles(job, data.train_files, nullptr); });
  if (!data.validation_files.empty()) {
    attempt([&] {
      job.validation = OpenFiles(job, data.validation_files, whole.get());
      if (whole == nullptr) return;
      CheckSameShape(data.validation_files.front(), whole->shape(), job.validation->shape());
    });
  }
  if (whole == nullptr) return;
  const int64_t size = whole->size();
  const int64_t set_aside = ValidationCount(size, data.validation_fraction);
  if (set_aside == 0) {
    job.train = std::move(whole);
  } else if (data.format == DataFormat::kCsv) {
    whole.reset();
    if (!attempt([&] { SetRowsAside(data, size, set_aside, job); })) return;
  } else {
    SetAside(std::move(whole), set_aside, job);
  }
  const Dataset& opened = job.wholes.empty() ? *job.train : *job.wholes.back();
  job.model_files = opened.ModelFiles();
  job.data_notes = opened.Notes();
  // A part of one data set has no notes of its own.
  if (job.validation != nullptr) {
    for (const std::string& note : job.validation->Notes()) {
      job.data_notes.push_back("validation data: " + note);
    }
  }
  if (!data.test_files.empty()) {
    attempt([&] {
      job.test = OpenFurtherData(job, data.test_files);
      for (const std::string& note : job.test->Notes()) {
        job.data_notes.push_back("test data: " + note);
      }
    });
  }
  KeepSome(data.max_train_samples, job.train, job);
  KeepSome(data.max_eval_samples, job.validation, job);
  if (data.length_grouped) job.train_lengths = job.train->Lengths();
}

std::unique_ptr<Dataset> OpenFurtherData(const Job& job,
                                         const std::vector<std::string>& files,
                                         Targets targets) {
  if (job.config.data.format == DataFormat::kRandom) {
    throw WrongDataFile(
        files.front(),
        "The run was trained on random numbers (data.format \"random\"), and no file "
        "has this format.",
        "Name a run that was trained on files.");
  }
  std::unique_ptr<Dataset> opened = OpenFiles(job, files, job.train.get(), targets);
  CheckSameShape(files.front(), job.train->shape(), opened->shape());
  return opened;
}

nlohmann::ordered_json DescribeData(const Job& job) {
  const DataShape shape = job.train->shape();
  nlohmann::ordered_json description = {{"input", shape.input},
                                        {"target", shape.target},
                                        {"classes", shape.classes},
                                        {"labels", shape.labels},
                                        {"vocab_size", shape.vocab_size}};
  if (job.config.data.format == DataFormat::kCsv) {
    description["table"] = nlohmann::ordered_json::parse(job.model_files.at("data.json"));
  }
  return description;
}

std::unique_ptr<Dataset> OpenDescribedData(const Config& config,
                                           const nlohmann::json& description) {
  if (config.data.format == DataFormat::kCsv) {
    return std::make_unique<CsvDataset>(ReadTableDescription(description.at("table").dump()),
                                        config.data.target_type == TargetType::kClass);
  }
  return std::make_unique<DescribedData>(DataShape{.input = description.at("input"),
                                                   .target = description.at("target"),
                                                   .classes = description.at("classes"),
                                                   .labels = description.at("labels"),
                                                   .vocab_size = description.at("vocab_size")});
}

}  // namespace ddprun::trainer
