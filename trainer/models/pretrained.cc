#include "trainer/models/pretrained.h"

#include <ATen/core/grad_mode.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "trainer/models/safetensors.h"
#include "trainer/models/whole_file.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kWeightsName = "model.safetensors";
constexpr const char* kConfigName = "config.json";
constexpr size_t kMostNamed = 5;  // problems of one kind that a message names

std::string ShapeText(at::IntArrayRef shape) {
  std::ostringstream text;
  text << shape;
  return text.str();
}

// "Missing (2): a, b\n"
std::string ListOf(const std::string& kind, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string text = kind + " (" + std::to_string(names.size()) + "): ";
  for (size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return text + (names.size() > kMostNamed ? ", ...\n" : "\n");
}

Failure BadConfig(const fs::path& path, const std::string& what) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "MODEL FOLDER CANNOT BE USED",
                       .where = path.string(),
                       .what = what,
                       .hint = "A folder with config.json and model.safetensors is expected.",
                       .page = "model-folder"});
}

int64_t IntegerOr(const fs::path& path, const json& config, const char* key, int64_t fallback) {
  const json value = config.value(key, json());
  if (value.is_null()) return fallback;
  if (value.is_number_integer()) return value.get<int64_t>();
  throw BadConfig(path, std::string(key) + " is " + value.dump() + "; an integer was expected.");
}

// GPT2Config; the fallbacks are its defaults.
ModelOptions GptFrom(const fs::path& path, const json& config) {
  const json activation = config.value("activation_function", json("gelu_new"));
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    throw BadConfig(path,
                    "activation_function is " + activation.dump() + "; gelu_new was expected.");
  }
  ModelOptions options;
  options.type = "gpt";
  options.vocab_size = IntegerOr(path, config, "vocab_size", 50257);
  options.max_positions = IntegerOr(path, config, "n_positions", 1024);
  options.hidden_size = IntegerOr(path, config, "n_embd", 768);
  options.num_hidden_layers = IntegerOr(path, config, "n_layer", 12);
  options.num_attention_heads = IntegerOr(path, config, "n_head", 12);
  options.intermediate_size = IntegerOr(path, config, "n_inner", 0);
  const json dropout = config.value("resid_pdrop", json(0.1));
  options.dropout = dropout.is_number() ? dropout.get<double>() : 0.0;
  return options;
}

ModelOptions MlpFrom(const fs::path& path, const json& config) {
  ModelOptions options;
  options.type = "mlp";
  try {
    options.layer_sizes = config.at("layer_sizes").get<std::vector<int64_t>>();
    options.activation = config.at("activation").get<std::string>();
  } catch (const json::exception& error) {
    throw BadConfig(path, error.what());
  }
  return options;
}

}  // namespace

void LoadWeights(Model& model, const std::string& path) {
  const SafetensorsFile file(fs::is_directory(path) ? (fs::path(path) / kWeightsName).string()
                                                    : path);
  const auto parameters = model.named_parameters();
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> misshaped;
  std::map<std::string, std::string> stored_name_of;
  for (const auto& [stored, entry] : file.entries()) {
    const auto name = model.ParameterFor(stored);
    if (!name) continue;
    const at::Tensor* parameter = parameters.find(*name);
    if (parameter == nullptr || !stored_name_of.emplace(*name, stored).second) {
      unexpected.push_back(stored);
    } else if (parameter->sizes() != at::IntArrayRef(entry.shape) ||
               !at::isFloatingType(entry.dtype)) {
      misshaped.push_back(stored + " is " + ShapeText(entry.shape) + " in the file and " +
                          ShapeText(parameter->sizes()) + " in the model");
    }
  }
  for (const auto& parameter : parameters) {
    if (!stored_name_of.contains(parameter.key())) missing.push_back(parameter.key());
  }
  if (!missing.empty() || !unexpected.empty() || !misshaped.empty()) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "WEIGHTS DO NOT FIT THE MODEL",
                        .where = file.path(),
                        .what = "\"" + file.path() + "\" does not hold this model's weights.\n" +
                                ListOf("Missing", missing) +
                                ListOf("Not in the model", unexpected) +
                                ListOf("Of another shape or no floats", misshaped),
                        .hint = "Make the model section describe the model that was saved.",
                        .page = "weights-do-not-fit"});
  }
  const at::NoGradGuard no_grad;
  for (const auto& parameter : parameters) {
    at::Tensor target = parameter.value();
    target.copy_(file.Get(stored_name_of.at(parameter.key())));
  }
}

void SavePretrained(const Model& model, const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Failure(SystemError("making the folder " + folder, error.value()));
  NamedTensors tensors;
  for (const auto& parameter : model.named_parameters()) {
    tensors.emplace_back(parameter.key(), parameter.value());
  }
  // transformers refuses a file that does not name its framework.
  WriteSafetensors((fs::path(folder) / kWeightsName).string(), tensors, {{"format", "pt"}});
  const std::string config = model.ConfigJson();
  const std::array<std::string_view, 1> parts = {config};
  ThrowIfError(WriteWholeFile((fs::path(folder) / kConfigName).string(), parts));
}

ModelOptions ReadModelOptions(const std::string& folder) {
  const fs::path path = fs::path(folder) / kConfigName;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw BadConfig(path, "\"" + path.string() + "\" cannot be read.");
  const json config = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) throw BadConfig(path, "\"" + path.string() + "\" is no JSON object.");
  const json type = config.value("model_type", json());
  if (type == "gpt2") return GptFrom(path, config);
  if (type == "mlp") return MlpFrom(path, config);
  throw BadConfig(path, "model_type is " + type.dump() + "; \"gpt2\" or \"mlp\" was expected.");
}

}  // namespace ddprun::trainer
