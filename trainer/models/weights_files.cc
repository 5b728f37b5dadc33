#include "trainer/models/weights_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "base/read_file.h"
#include "trainer/checkpoint/model_weights.h"
#include "trainer/models/pretrained.h"
#include "trainer/state/safetensors.h"
#include "trainer/state/torch_file.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Failure BrokenIndex(const std::string& path, const std::string& what) {
  return Failure(Error{.code = Code::kDamaged,
                       .title = "BROKEN WEIGHTS INDEX",
                       .where = path,
                       .what = "\"" + path + "\" " + what + ".",
                       .hint = "Copy or download the folder again; it may be incomplete.",
                       .page = "broken-weights"});
}

Failure NoWeights(const fs::path& folder) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "NO WEIGHTS IN THE MODEL FOLDER",
                       .where = folder.string(),
                       .what = "\"" + folder.string() + "\" has neither " + kWeightsName + " nor " +
                               kPickleName + ", and no index of shards.",
                       .hint = "A folder with config.json and model.safetensors is expected.",
                       .page = "model-folder"});
}

bool IsFileName(const std::string& name) {
  return !name.empty() && name.find('/') == name.npos;
}

// Returns the shard of each tensor, in the order of names.
std::map<std::string, std::string> ReadWeightMap(const std::string& path) {
  const auto text = ValueOrThrow(ReadFile(path));
  const json index = json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    throw BrokenIndex(path, "has no weight_map");
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [name, shard] : index["weight_map"].items()) {
    // Accepts only files of this folder, so that an index cannot lead elsewhere.
    if (!shard.is_string() || !IsFileName(shard.get<std::string>())) {
      throw BrokenIndex(path,
                        "names no file of its folder for tensor \"" + name + "\": " + shard.dump());
    }
    shard_of[name] = shard.get<std::string>();
  }
  return shard_of;
}

// Keys under which scripts save a model's state dict beside the optimizer's, and prefixes of
// modules that were wrapped when they were saved.
constexpr std::array<const char*, 3> kModelSections = {"model", "state_dict", "model_state_dict"};
constexpr std::array<std::string_view, 2> kWrappers = {"module.", "_orig_mod."};

// Returns the prefix of the names of the model's own tensors.
std::string ModelPrefix(const TorchFile& file) {
  std::string prefix;
  for (const char* section : kModelSections) {
    if (std::ranges::find(file.sections(), section) != file.sections().end()) {
      prefix = std::string(section) + ".";
    }
  }
  const auto all_begin_with = [&](const std::string& text) {
    return std::ranges::all_of(file.entries(), [&](const auto& entry) {
      return !entry.first.starts_with(prefix) || entry.first.starts_with(text);
    });
  };
  for (const std::string_view wrapper : kWrappers) {
    if (all_begin_with(prefix + std::string(wrapper))) prefix += wrapper;
  }
  return prefix;
}

std::map<std::string, WeightsFiles::Entry> OpenTorchFile(const std::string& path) {
  const auto file = std::make_shared<const TorchFile>(path);
  const std::string prefix = ModelPrefix(*file);
  std::map<std::string, WeightsFiles::Entry> entries;
  for (const auto& [name, entry] : file->entries()) {
    if (!name.starts_with(prefix)) continue;
    const auto read = [file, name = name](at::Tensor& target) { target.copy_(file->Get(name)); };
    entries[name.substr(prefix.size())] = {entry.dtype, entry.view.shape, read};
  }
  return entries;
}

std::map<std::string, WeightsFiles::Entry> OpenSafetensors(const std::string& path) {
  const auto file = std::make_shared<const SafetensorsFile>(path);
  std::map<std::string, WeightsFiles::Entry> entries;
  for (const auto& [name, entry] : file->entries()) {
    const auto read = [file, name = name](at::Tensor& target) { file->ReadInto(name, target); };
    entries[name] = {entry.dtype, entry.shape, read};
  }
  return entries;
}

bool IsCheckpoint(const std::string& path) {
  return fs::exists(fs::path(path) / "COMMIT") || fs::exists(fs::path(path) / "index.json");
}

std::map<std::string, WeightsFiles::Entry> OpenCheckpoint(const std::string& path, Verify verify) {
  const auto file =
      std::make_shared<const Checkpoint>(ValueOrThrow(Checkpoint::Open(path, verify)));
  std::map<std::string, WeightsFiles::Entry> entries;
  const auto add = [&](const std::string& name, const CheckpointTensor& tensor) {
    if (!name.starts_with(kModelPrefix)) return;
    const auto read = [file, stored = WeightsIn(*file, name)](at::Tensor& target) {
      target.copy_(file->Read(stored));
    };
    entries[name.substr(kModelPrefix.size())] = {tensor.dtype, tensor.shape, read};
  };
  for (const auto& [name, tensor] : file->tensors()) add(name, tensor);
  for (const auto& [name, owner] : file->aliases()) add(name, file->tensors().at(owner));
  return entries;
}

}  // namespace

bool HasOnlyWeights(const std::string& path) {
  return fs::is_regular_file(path) || IsCheckpoint(path);
}

WeightsFiles::WeightsFiles(const std::string& path, Verify verify) : path_(path) {
  if (IsCheckpoint(path)) {
    entries_ = OpenCheckpoint(path, verify);
    return;
  }
  if (!fs::is_directory(path)) {
    AddFile(path);
    return;
  }
  // Looks for safetensors first, because a folder of the Hub may have both.
  for (const char* name : {kWeightsName, kIndexName, kPickleName, kPickleIndexName}) {
    path_ = (fs::path(path) / name).string();
    if (!fs::exists(path_)) continue;
    if (path_.ends_with(".json")) {
      OpenShards();
    } else {
      AddFile(path_);
    }
    return;
  }
  throw NoWeights(path);
}

void WeightsFiles::OpenShards() {
  const std::map<std::string, std::string> shard_of = ReadWeightMap(path_);
  const fs::path folder = fs::path(path_).parent_path();
  std::set<std::string> shards;
  for (const auto& [name, shard] : shard_of) shards.insert(shard);
  std::map<std::string, std::string> found;
  for (const std::string& shard : shards) {
    if (!fs::exists(folder / shard)) {
      throw BrokenIndex(path_, "names the shard \"" + shard + "\", which is not in the folder");
    }
    for (std::string& name : AddFile((folder / shard).string())) found[std::move(name)] = shard;
  }
  for (const auto& [name, shard] : shard_of) {
    if (found[name] != shard) {
      throw BrokenIndex(path_,
                        "says that tensor \"" + name + "\" is in \"" + shard + "\", but it is not");
    }
  }
}

// Adds the file's tensors. Returns their names.
std::vector<std::string> WeightsFiles::AddFile(const std::string& path) {
  std::vector<std::string> names;
  for (auto& [name, entry] :
       TorchFile::IsTorchFile(path) ? OpenTorchFile(path) : OpenSafetensors(path)) {
    if (!entries_.emplace(name, std::move(entry)).second) {
      throw BrokenIndex(path_, "names two shards with tensor \"" + name + "\"");
    }
    names.push_back(name);
  }
  return names;
}

}  // namespace ddprun::trainer
