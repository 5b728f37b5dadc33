#include "trainer/models/adapter_folder.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>

#include <cmath>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/owned_folder.h"
#include "trainer/models/folder_config.h"
#include "trainer/models/lora.h"
#include "trainer/models/weights_files.h"
#include "trainer/state/safetensors.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kWeights = "adapter_model.safetensors";
constexpr const char* kPickle = "adapter_model.bin";
const std::string kPrefix = "base_model.model.";  // of all names of tensors

// peft's number is an integer if it can be.
ordered_json NumberJson(double number) {
  const bool is_integer = std::trunc(number) == number && std::abs(number) < 1e15;
  return is_integer ? ordered_json(static_cast<int64_t>(number)) : ordered_json(number);
}

std::string ConfigText(const ModelOptions& options, const std::string& base) {
  const LoraOptions& lora = TransformerIn(options)->lora;
  const bool classifies = std::holds_alternative<BertOptions>(options);
  ordered_json targets = lora.target_modules;
  if (targets == ordered_json{"all-linear"}) targets = "all-linear";
  const ordered_json config = {
      {"base_model_name_or_path", base},
      {"bias", "none"},
      {"fan_in_fan_out", std::holds_alternative<GptOptions>(options)},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"lora_alpha", NumberJson(lora.alpha)},
      {"lora_dropout", lora.dropout},
      {"modules_to_save", classifies ? ordered_json{"classifier", "score"} : ordered_json()},
      {"peft_type", "LORA"},
      {"r", lora.r},
      {"target_modules", targets},
      {"task_type", classifies ? "SEQ_CLS" : "CAUSAL_LM"},
      {"use_dora", false},
      {"use_rslora", lora.use_rslora}};
  return config.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Failure DoesNotFit(const std::string& folder, const std::string& what) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "ADAPTER DOES NOT FIT",
                       .where = folder,
                       .what = "\"" + folder + "\" " + what,
                       .hint = "Name with model.name_or_path the model for which the adapter was "
                               "trained, and set\ntraining.lora_* as its adapter_config.json says.",
                       .page = "adapter-does-not-fit"});
}

// Throws if adapter_config.json asks for other sums than `options` do.
void CheckConfig(const LoraOptions& options, const std::string& folder) {
  if (!fs::exists(fs::path(folder) / kConfig)) {
    throw DoesNotFit(folder, std::string("has no ") + kConfig + ", so it is no folder of peft.");
  }
  const FolderConfig config(folder, kConfig);
  std::string wrong;
  const auto compare = [&](const char* key, const ordered_json& in_folder,
                           const ordered_json& here) {
    if (in_folder == here) return;
    wrong += std::string("\n") + key + " is " + in_folder.dump() + " there and " + here.dump() +
             " in this run";
  };
  compare("peft_type", config.Text("peft_type", ""), "LORA");
  compare("r", config.Size("r", 8), options.r);
  compare("lora_alpha", config.Number("lora_alpha", 8), options.alpha);
  compare("use_rslora", config.Flag("use_rslora", false), options.use_rslora);
  compare("use_dora", config.Flag("use_dora", false), false);
  compare("bias", config.Text("bias", "none"), "none");
  // Other ways to begin, such as PiSSA's, change the model's own weights, which the folder lacks.
  const ordered_json begin = config.json().value("init_lora_weights", ordered_json(true));
  if (!begin.is_boolean() && begin != "gaussian" && begin != "eva" && begin != "orthogonal") {
    compare("init_lora_weights", begin, true);
  }
  for (const char* key : {"rank_pattern", "alpha_pattern"}) {
    compare(key, config.Object(key).json(), ordered_json::object());
  }
  if (!wrong.empty()) throw DoesNotFit(folder, "was made with other options:" + wrong);
}

// Opens the folder's tensors. Throws if they are not those of the model.
WeightsFiles OpenAdapter(const Model& model,
                         const LoraOptions& options,
                         const std::string& folder) {
  CheckConfig(options, folder);
  const bool safe = fs::exists(fs::path(folder) / kWeights);
  WeightsFiles files((fs::path(folder) / (safe ? kWeights : kPickle)).string(), Verify::kSizes);
  StateDifferences wrong;
  const auto state = model.State();
  for (const auto& [stored, entry] : files.entries()) {
    const bool named = stored.starts_with(kPrefix) && IsOfAdapter(stored.substr(kPrefix.size()));
    const at::Tensor* own = named ? state.find(stored.substr(kPrefix.size())) : nullptr;
    if (own == nullptr) {
      wrong.unknown.push_back(stored);
    } else if (own->sizes() != at::IntArrayRef(entry.shape)) {
      wrong.misfits.push_back(stored + " is " + c10::str(at::IntArrayRef(entry.shape)) +
                              " in the file and " + c10::str(own->sizes()) + " in the model");
    }
  }
  for (const auto& item : state) {
    const std::string& name = item.key();
    if (!IsOfAdapter(name) || files.entries().contains(kPrefix + name)) continue;
    if (!model.MayBeMissingInFile(name)) wrong.missing.push_back(kPrefix + name);
  }
  if (wrong.none()) return files;
  throw DoesNotFit(folder, "is no adapter of this model.\n" + wrong.Text("the model"));
}

}  // namespace

std::string SaveAdapter(const Model& model,
                        const ModelOptions& options,
                        const std::string& base,
                        const std::string& folder) {
  AtomicFolder whole = ValueOrThrow(AtomicFolder::Create(folder));
  NamedTensors tensors;
  for (const auto& item : model.State()) {
    if (IsOfAdapter(item.key())) tensors.emplace_back(kPrefix + item.key(), item.value());
  }
  const fs::path path = whole.path();
  WriteSafetensors((path / kWeights).string(), tensors, {{"format", "pt"}});
  ThrowIfError(WriteFileAtomically((path / kConfig).string(),
                                   ConfigText(options, fs::absolute(base).string()),
                                   Durability::kUnsynced));
  const std::string aside = ValueOrThrow(whole.Finish());
  return aside.empty() ? folder : folder + " (the one of before is " + aside + " now)";
}

void LoadAdapter(Model& model, const LoraOptions& options, const std::string& folder) {
  const WeightsFiles files = OpenAdapter(model, options, folder);
  const at::NoGradGuard no_grad;
  auto state = model.State();
  for (const auto& [stored, entry] : files.entries()) {
    entry.read_into(state[stored.substr(kPrefix.size())]);
  }
}

void CheckAdapter(const Model& model, const LoraOptions& options, const std::string& folder) {
  OpenAdapter(model, options, folder);
}

}  // namespace ddprun::trainer
