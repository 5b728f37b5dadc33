#include "trainer/models/weights_files.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "trainer/models/pretrained.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Failure BrokenIndex(const std::string& path, const std::string& what) {
  return Failure(Error{.code = Code::kFailed,
                       .title = "BROKEN WEIGHTS INDEX",
                       .where = path,
                       .what = "\"" + path + "\" " + what + ".",
                       .hint = "Copy or download the folder again; it may be incomplete.",
                       .page = "broken-weights"});
}

Failure NoWeights(const fs::path& folder) {
  const bool pickle = fs::exists(folder / "pytorch_model.bin") ||
                      fs::exists(folder / "pytorch_model.bin.index.json");
  return Failure(
      Error{.code = Code::kUsage,
            .title = "NO WEIGHTS IN THE MODEL FOLDER",
            .where = folder.string(),
            .what = "\"" + folder.string() + "\" has neither " + kWeightsName + " nor " +
                    kIndexName + (pickle ? ", only a pytorch_model.bin." : "."),
            .hint = pickle ? "A pickle can run code when it is read, so it is not read here. "
                             "Convert it once with transformers: "
                             "AutoModel.from_pretrained(folder).save_pretrained(folder)."
                           : "A folder with config.json and model.safetensors is expected.",
            .page = "model-folder"});
}

bool IsFileName(const std::string& name) {
  return !name.empty() && name.find('/') == name.npos;
}

// Shard by tensor, in the order of the names.
std::map<std::string, std::string> ReadWeightMap(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const json index = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    throw BrokenIndex(path, "has no weight_map");
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [name, shard] : index["weight_map"].items()) {
    // Only files of the folder itself: an index must not lead elsewhere.
    if (!shard.is_string() || !IsFileName(shard.get<std::string>())) {
      throw BrokenIndex(path,
                        "names no file of its folder for tensor \"" + name + "\": " + shard.dump());
    }
    shard_of[name] = shard.get<std::string>();
  }
  return shard_of;
}

}  // namespace

WeightsFiles::WeightsFiles(const std::string& path) : path_(path) {
  if (!fs::is_directory(path)) {
    Add(SafetensorsFile(path));
    return;
  }
  const fs::path folder = path;
  if (fs::exists(folder / kWeightsName)) {
    path_ = (folder / kWeightsName).string();
    Add(SafetensorsFile(path_));
    return;
  }
  path_ = (folder / kIndexName).string();
  if (!fs::exists(path_)) throw NoWeights(folder);
  OpenShards();
}

void WeightsFiles::OpenShards() {
  const std::map<std::string, std::string> shard_of = ReadWeightMap(path_);
  const fs::path folder = fs::path(path_).parent_path();
  std::set<std::string> shards;
  for (const auto& [name, shard] : shard_of) shards.insert(shard);
  for (const std::string& shard : shards) {
    if (!fs::exists(folder / shard)) {
      throw BrokenIndex(path_, "names the shard \"" + shard + "\", which is not in the folder");
    }
    Add(SafetensorsFile((folder / shard).string()));
  }
  for (const auto& [name, shard] : shard_of) {
    const auto found = file_of_.find(name);
    if (found == file_of_.end() ||
        fs::path(files_[found->second].path()).filename() != fs::path(shard)) {
      throw BrokenIndex(path_,
                        "says that tensor \"" + name + "\" is in \"" + shard + "\", but it is not");
    }
  }
}

void WeightsFiles::Add(SafetensorsFile file) {
  for (const auto& [name, entry] : file.entries()) {
    if (!file_of_.emplace(name, files_.size()).second) {
      throw BrokenIndex(path_, "names two shards with tensor \"" + name + "\"");
    }
    entries_.emplace(name, entry);
  }
  files_.push_back(std::move(file));
}

void WeightsFiles::ReadInto(const std::string& name, at::Tensor& target) const {
  files_[file_of_.at(name)].ReadInto(name, target);
}

}  // namespace ddprun::trainer
