#include "trainer/worker/exported_job.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "base/read_file.h"
#include "trainer/config/read_config.h"
#include "trainer/job/open_data.h"
#include "trainer/job/open_model.h"
#include "trainer/models/folder_config.h"
#include "trainer/models/pretrained.h"
#include "trainer/report/run_folder.h"
#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Failure NotSaid(const std::string& folder, const std::string& what, const std::string& hint) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "THE FOLDER DOES NOT SAY ENOUGH",
                       .where = folder,
                       .what = "\"" + folder + "\" has a model, but " + what,
                       .hint = hint,
                       .page = "folder-does-not-say-enough"});
}

std::string ConfigPathOf(const std::string& folder, const std::string& config) {
  if (!config.empty()) return config;
  const fs::path of_run = fs::path(folder).lexically_normal() / ".." / kResolvedConfig;
  if (fs::exists(of_run)) return of_run.string();
  throw NotSaid(folder, "it does not say what the rows of files are.",
                "Name the config of its training with --config, or one with the sections data and "
                "model for it.\nOr name a run or a checkpoint, which have their config.");
}

json ReadJson(const fs::path& path) {
  const auto text = ReadIfReadable(path.string());
  return text ? json::parse(*text, nullptr, /*allow_exceptions=*/false) : json();
}

// Returns the names in id2label, in the order of their numbers.
std::vector<std::string> LabelsIn(const std::string& folder) {
  const json config = ReadJson(fs::path(folder) / kConfigName);
  std::vector<std::string> labels;
  const auto names = config.is_object() ? config.find("id2label") : config.end();
  if (names == config.end() || !names->is_object()) return labels;
  for (size_t i = 0; i < names->size(); ++i) {
    const auto name = names->find(std::to_string(i));
    if (name == names->end() || !name->is_string()) return {};
    labels.push_back(name->get<std::string>());
  }
  return labels;
}

// Returns what DescribeData() returns in training, as far as it is known.
json Describe(const std::string& folder, const DataConfig& data) {
  const std::vector<std::string> labels = data.labels.empty() ? LabelsIn(folder) : data.labels;
  json description = {{"input", json::array()},
                      {"target", json::array()},
                      {"classes", labels.size()},
                      {"labels", labels},
                      {"vocab_size", 0}};
  if (data.format == DataFormat::kCsv) {
    description["table"] = ReadJson(fs::path(folder) / "data.json");
    if (description["table"].is_object()) return description;
    throw NotSaid(folder, "no data.json, which says how columns become inputs.",
                  "Name the run or one of its checkpoints.");
  }
  const json images = ReadJson(fs::path(folder) / "preprocessor_config.json");
  if (images.is_object() && images.contains("crop_size")) {
    const json& size = images["crop_size"];
    const int channels = images.value("do_convert_rgb", true) ? 3 : 1;
    description["input"] = {channels, size.value("height", 0), size.value("width", 0)};
  }
  return description;
}

}  // namespace

bool IsModelFolder(const std::string& path) {
  return fs::exists(fs::path(path) / kConfigName) && !fs::exists(fs::path(path) / "COMMIT");
}

SavedJob OpenExportedJob(const std::string& folder,
                         const std::string& config,
                         const Environment& environment) {
  SavedJob saved{.path = folder};
  Job& job = saved.job;
  job.config_path = ConfigPathOf(folder, config);
  job.config = ValueOrThrow(ReadConfig(job.config_path, {}, environment));
  job.config.model.name_or_path = folder;
  job.config.training.lora_r = 0;  // the folder has the matrices in its weights
  // A run has copied the tokenizer into the folder.
  std::string& tokenizer = job.config.data.tokenizer;
  if (!tokenizer.empty() && !fs::exists(tokenizer) && HasTokenizer(folder)) tokenizer = folder;
  job.model = OpenModel(job.config);
  try {
    job.train = OpenDescribedData(job.config, Describe(folder, job.config.data));
  } catch (const json::exception& wrong) {
    throw NotSaid(folder,
                  "data.json or preprocessor_config.json is not as ddprun wrote it: " +
                      std::string(wrong.what()) + ".",
                  "Name the run or one of its checkpoints, or export the folder again.");
  }
  FitModelToData(job.train->shape(), job.config, job.model);
  saved.load = [folder](const Job& of_model, c10::Device device) {
    std::shared_ptr<Model> model = EmptyModel(of_model, device);
    LoadWeights(*model, folder);
    return model;
  };
  return saved;
}

}  // namespace ddprun::trainer
