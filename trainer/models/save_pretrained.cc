#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "trainer/models/pretrained.h"
#include "trainer/models/pretrained_names.h"
#include "trainer/models/safetensors.h"
#include "trainer/models/whole_file.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// What transformers needs beside the weights to use a model.
constexpr std::array<const char*, 10> kCompanions = {"vocab.txt",
                                                     "tokenizer.json",
                                                     "tokenizer_config.json",
                                                     "special_tokens_map.json",
                                                     "added_tokens.json",
                                                     "vocab.json",
                                                     "merges.txt",
                                                     "tokenizer.model",
                                                     "chat_template.jinja",
                                                     kGenerationConfigName};

void WriteText(const fs::path& path, std::string_view text) {
  const std::array<std::string_view, 1> parts = {text};
  ThrowIfError(WriteWholeFile(path.string(), parts));
}

std::string ReadText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) throw Failure(SystemError("reading " + path.string(), errno));
  return text;
}

// Parameters in their order, cut where the next one would make a file too large.
std::vector<NamedTensors> Shards(const Model& model, int64_t max_bytes) {
  std::vector<NamedTensors> shards(1);
  int64_t bytes = 0;
  for (const auto& parameter : model.State()) {
    const auto more = static_cast<int64_t>(parameter.value().nbytes());
    if (!shards.back().empty() && bytes + more > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().emplace_back(parameter.key(), parameter.value());
    bytes += more;
  }
  return shards;
}

std::string ShardName(size_t index, size_t count) {
  std::array<char, 64> name;
  std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name.data();
}

bool IsWeights(const std::string& name) {
  return name == kWeightsName || name == kIndexName ||
         (name.starts_with("model-") && name.ends_with(".safetensors"));
}

// Returns the names of the files that hold the weights.
std::set<std::string> WriteWeights(const Model& model, const fs::path& folder, int64_t max_bytes) {
  // transformers refuses a file that does not name its framework.
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  const std::vector<NamedTensors> shards = Shards(model, max_bytes);
  if (shards.size() == 1) {
    WriteSafetensors((folder / kWeightsName).string(), shards.front(), metadata);
    return {kWeightsName};
  }
  ordered_json index;
  int64_t total_bytes = 0;
  std::set<std::string> written = {kIndexName};
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = ShardName(i, shards.size());
    WriteSafetensors((folder / name).string(), shards[i], metadata);
    written.insert(name);
    for (const auto& [tensor_name, tensor] : shards[i]) {
      index["weight_map"][tensor_name] = name;
      total_bytes += static_cast<int64_t>(tensor.nbytes());
    }
  }
  index["metadata"] = {{"total_size", total_bytes}};
  WriteText(folder / kIndexName, index.dump(2) + "\n");
  return written;
}

// What an earlier model left would be read in place of the new files, or with them.
void RemoveOtherWeights(const fs::path& folder, const std::set<std::string>& kept) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (IsWeights(name) && !kept.contains(name)) fs::remove(entry.path(), error);
  }
}

std::string ConfigText(const Model& model, const std::string& source) {
  const ordered_json own = ordered_json::parse(model.ConfigJson());
  ordered_json config = source.empty()
                            ? ordered_json()
                            : ordered_json::parse(ReadText(fs::path(source) / kConfigName), nullptr,
                                                  /*allow_exceptions=*/false);
  if (!config.is_object()) return model.ConfigJson();
  // Other words for what the model's own keys say.
  for (const char* key : {"dtype", "num_labels", "problem_type"}) config.erase(key);
  for (const auto& [key, value] : own.items()) {
    // Null is "not known here", as the ids of special tokens are.
    if (!value.is_null() || !config.contains(key)) config[key] = value;
  }
  return config.dump(2) + "\n";
}

void CopyCompanions(const fs::path& source, const fs::path& folder) {
  std::error_code error;
  if (fs::equivalent(source, folder, error)) return;
  for (const char* name : kCompanions) {
    if (fs::is_regular_file(source / name, error))
      WriteText(folder / name, ReadText(source / name));
  }
}

}  // namespace

void SavePretrained(const Model& model, const std::string& folder, const SaveOptions& options) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Failure(SystemError("making the folder " + folder, error.value()));
  RemoveOtherWeights(folder, WriteWeights(model, folder, options.max_shard_bytes));
  model.SaveFiles(folder);
  WriteText(fs::path(folder) / kConfigName, ConfigText(model, options.source));
  if (options.data.empty()) {
    fs::remove(fs::path(folder) / "data.json", error);  // of another model's data
  } else {
    WriteText(fs::path(folder) / "data.json", options.data);
  }
  if (!options.source.empty()) CopyCompanions(options.source, folder);
  if (!options.tokenizer.empty()) CopyCompanions(options.tokenizer, folder);
}

}  // namespace ddprun::trainer
