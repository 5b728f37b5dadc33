#include <array>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/owned_folder.h"
#include "base/read_file.h"
#include "trainer/models/folder_config.h"
#include "trainer/models/lora.h"
#include "trainer/models/pretrained.h"
#include "trainer/state/safetensors.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Files of a tokenizer. The first kVocabularies are those of which LoadTokenizer() takes one.
constexpr std::array<const char*, 9> kTokenizerFiles = {"tokenizer.json",
                                                        "vocab.txt",
                                                        "vocab.json",
                                                        "merges.txt",
                                                        "tokenizer_config.json",
                                                        "special_tokens_map.json",
                                                        "added_tokens.json",
                                                        "tokenizer.model",
                                                        "chat_template.jinja"};
constexpr size_t kVocabularies = 3;

void WriteText(const fs::path& path, std::string_view text) {
  // The file is not synced, because the caller syncs the whole folder.
  ThrowIfError(WriteFileAtomically(path.string(), text, Durability::kUnsynced));
}

// Returns nullopt if the folder or file is missing or cannot be read, because a run that has
// trained for days must save its weights anyway.
std::optional<std::string> ReadText(const fs::path& folder, const char* name) {
  const fs::path path = folder / name;
  std::error_code error;
  if (folder.empty() || !fs::is_regular_file(path, error)) return std::nullopt;
  return ReadIfReadable(path.string());
}

using LazyTensors = std::vector<LazyTensor>;

// Divides the tensors, in their order, into shards that are not too large. `read`: of SaveOptions.
std::vector<LazyTensors> Shards(const Model& model, const ReadTensor& read, int64_t max_bytes) {
  std::vector<LazyTensors> shards(1);
  int64_t bytes = 0;
  for (const auto& item : model.State()) {
    if (IsLora(item.key())) continue;
    const at::Tensor& own = item.value();
    const auto more = static_cast<int64_t>(own.nbytes());
    if (!shards.back().empty() && bytes + more > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(
        {.name = item.key(),
         .dtype = own.scalar_type(),
         .shape = own.sizes().vec(),
         .read = [&model, &read, name = item.key()] { return MergedWeight(model, name, read); }});
    bytes += more;
  }
  return shards;
}

std::string ShardName(size_t index, size_t count) {
  std::array<char, 64> name;
  std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name.data();
}

void WriteWeights(const Model& model, const fs::path& folder, const SaveOptions& options) {
  // transformers refuses a file that does not name its framework.
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  const auto state = model.State();
  const ReadTensor of_model = [&state](const std::string& name) { return state[name]; };
  const ReadTensor& read = options.read ? options.read : of_model;
  const std::vector<LazyTensors> shards = Shards(model, read, options.max_shard_bytes);
  if (shards.size() == 1) {
    WriteSafetensors((folder / kWeightsName).string(), shards.front(), metadata);
    return;
  }
  ordered_json index;
  size_t bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = ShardName(i, shards.size());
    WriteSafetensors((folder / name).string(), shards[i], metadata);
    for (const LazyTensor& tensor : shards[i]) {
      index["weight_map"][tensor.name] = name;
      bytes += c10::multiply_integers(tensor.shape) * c10::elementSize(tensor.dtype);
    }
  }
  index["metadata"] = {{"total_size", bytes}};
  WriteText(folder / kIndexName, index.dump(2) + "\n");
}

// Returns the options that a reader finds in `config`; nullopt if it describes no model.
std::optional<ModelOptions> FindOptions(const ordered_json& config) {
  try {
    return ReadModelOptions(FolderConfig(kConfigName, nlohmann::json(config)));
  } catch (const Failure&) {
    return std::nullopt;
  }
}

// Returns `source` with the keys of `own`. A key keeps its value in `source`, or stays missing, if
// a reader finds the same model with it.
ordered_json MergeConfigs(const ordered_json& source, const ordered_json& own) {
  ordered_json merged = source;
  for (const auto& [key, value] : own.items()) merged[key] = value;
  const bool has_labels = own.contains("id2label");
  // num_labels repeats the number of names in id2label.
  if (has_labels && merged.contains("num_labels")) merged["num_labels"] = own["id2label"].size();
  if (!FindOptions(merged)) merged.erase("problem_type");
  const auto wanted = FindOptions(own);
  for (const auto& [key, value] : own.items()) {
    if (key == "architectures") continue;
    ordered_json kept = merged;
    if (source.contains(key)) {
      kept[key] = source[key];
    } else {
      kept.erase(key);
    }
    if (wanted.has_value() && FindOptions(kept) == wanted) merged = std::move(kept);
  }
  const auto labels = [](const ordered_json& config) {
    return config.value("id2label", ordered_json());
  };
  if (has_labels && labels(merged) != labels(source)) merged["label2id"] = own["label2id"];
  // The type of the weights, which are saved in float32, as trained.
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (merged.contains(key)) merged[key] = "float32";
  }
  return merged;
}

ordered_json LabelKeys(const std::vector<std::string>& labels) {
  ordered_json keys;
  for (size_t i = 0; i < labels.size(); ++i) {
    keys["id2label"][std::to_string(i)] = labels[i];
    keys["label2id"][labels[i]] = i;
  }
  return keys;
}

std::string ConfigText(const Model& model, const SaveOptions& options) {
  ordered_json config = ordered_json::parse(model.ConfigJson());
  if (!config.contains("id2label") && !options.labels.empty()) {
    config.update(LabelKeys(options.labels));
  }
  if (const auto text = ReadText(options.source, kConfigName)) {
    const ordered_json source = ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (source.is_object()) config = MergeConfigs(source, config);
  }
  // Replaces invalid UTF-8, because names of classes may contain any bytes.
  return config.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

void CopyFile(const fs::path& source, const char* name, const fs::path& folder) {
  if (const auto text = ReadText(source, name)) WriteText(folder / name, *text);
}

// Copies one tokenizer, because files of two would make a third one.
void CopyTokenizer(const SaveOptions& options, const fs::path& folder) {
  std::error_code error;
  fs::path source = options.tokenizer.empty() ? options.source : options.tokenizer;
  fs::path named;
  if (fs::is_regular_file(source, error)) {
    named = source.filename();
    source = fs::absolute(source).parent_path();
  }
  for (size_t i = 0; i < kTokenizerFiles.size(); ++i) {
    // Another vocabulary would count in place of the named one.
    const bool other = !named.empty() && i < kVocabularies && named != kTokenizerFiles[i];
    if (!other) CopyFile(source, kTokenizerFiles[i], folder);
  }
}

void WriteFiles(const Model& model, const fs::path& folder, const SaveOptions& options) {
  WriteWeights(model, folder, options);
  model.SaveFiles(folder.string());
  WriteText(folder / kConfigName, ConfigText(model, options));
  CopyFile(options.source, kGenerationConfigName, folder);
  CopyTokenizer(options, folder);
  for (const auto& [name, text] : options.files) WriteText(folder / name, text);
}

}  // namespace

std::string SavePretrained(const Model& model,
                           const std::string& folder,
                           const SaveOptions& options) {
  AtomicFolder whole = ValueOrThrow(AtomicFolder::Create(folder));
  WriteFiles(model, whole.path(), options);
  return ValueOrThrow(whole.Finish());
}

}  // namespace ddprun::trainer
