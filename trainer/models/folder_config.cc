#include "trainer/models/folder_config.h"

#include <cmath>
#include <utility>

#include "base/read_file.h"
#include "trainer/models/pretrained.h"

namespace ddprun::trainer {

FolderConfig::FolderConfig(const std::string& folder) : FolderConfig(folder, kConfigName) {}

FolderConfig::FolderConfig(const std::string& folder, const char* name)
    : path_(std::filesystem::path(folder) / name) {
  const std::optional<std::string> text = ReadIfReadable(path_.string());
  if (!text) {
    // A run folder contains the model in a subfolder.
    const std::filesystem::path model = std::filesystem::path(folder) / "model";
    std::error_code ignored;
    const bool is_run = std::filesystem::exists(model / name, ignored);
    throw Broken("\"" + path_.string() + "\" cannot be read." +
                 (is_run
                      ? " The folder is that of a run; its model is in \"" + model.string() + "\"."
                      : ""));
  }
  json_ = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json_.is_object()) throw Broken("\"" + path_.string() + "\" is no JSON object.");
}

FolderConfig::FolderConfig(std::filesystem::path path, nlohmann::json object)
    : path_(std::move(path)), json_(std::move(object)) {}

nlohmann::json FolderConfig::Value(const char* key) const {
  const auto found = json_.find(key);
  return found == json_.end() ? nlohmann::json() : *found;
}

int64_t FolderConfig::Size(const char* key, int64_t fallback) const {
  const nlohmann::json value = Value(key);
  if (value.is_null()) return fallback;
  if (value.is_number_unsigned() && value.get<uint64_t>() <= INT32_MAX) {
    return value.get<int64_t>();
  }
  throw Unexpected(key, "an integer from 0 to 2147483647");
}

int64_t FolderConfig::Size(const char* key, const char* alias, int64_t fallback) const {
  if (!Has(alias)) return Size(key, fallback);
  const int64_t value = Size(alias, fallback);
  if (Size(key, value) == value) return value;
  throw Unexpected(key, "the same as " + std::string(alias) + ", " + std::to_string(value) + ",");
}

double FolderConfig::Number(const char* key, double fallback) const {
  const nlohmann::json value = Value(key);
  if (value.is_null()) return fallback;
  if (value.is_number()) return value.get<double>();
  throw Unexpected(key, "a number");
}

double FolderConfig::Positive(const char* key, double fallback) const {
  const double value = Number(key, fallback);
  if (value > 0 && std::isfinite(value)) return value;
  throw Unexpected(key, "a number above 0");
}

double FolderConfig::Probability(const char* key, double fallback) const {
  const double value = Number(key, fallback);
  if (value >= 0 && value < 1) return value;
  throw Unexpected(key, "a number of at least 0 and less than 1");
}

bool FolderConfig::Flag(const char* key, bool fallback) const {
  const nlohmann::json value = Value(key);
  if (value.is_null()) return fallback;
  if (value.is_boolean()) return value.get<bool>();
  throw Unexpected(key, "true or false");
}

std::string FolderConfig::Text(const char* key, const std::string& fallback) const {
  const nlohmann::json value = Value(key);
  if (value.is_null()) return fallback;
  if (value.is_string()) return value.get<std::string>();
  throw Unexpected(key, "a string");
}

FolderConfig FolderConfig::Object(const char* key) const {
  nlohmann::json value = Value(key);
  if (value.is_null()) return {path_, nlohmann::json::object()};
  if (value.is_object()) return {path_, std::move(value)};
  throw Unexpected(key, "an object");
}

void FolderConfig::RequireNone(const char* key, const std::string& why) const {
  const nlohmann::json value = Value(key);
  if (value.is_null() || (value.is_structured() && value.empty())) return;
  throw Broken("It has \"" + std::string(key) + "\": " + why);
}

void FolderConfig::Require(const char* key, bool expected) const {
  if (Flag(key, expected) != expected) throw Unexpected(key, expected ? "true" : "false");
}

Failure FolderConfig::Unexpected(const char* key, const std::string& expected) const {
  return Broken(std::string(key) + " is " +
                Value(key).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "; " +
                expected + " was expected.");
}

Failure FolderConfig::Broken(const std::string& what) const {
  return Failure(Error{
      .code = Code::kUsage,
      .title = "MODEL FOLDER CANNOT BE USED",
      .where = path_.string(),
      .what = what,
      .hint = "A folder with config.json and model.safetensors is expected. A run leaves one:\n"
              "runs/NAME/model.",
      .page = "model-folder"});
}

}  // namespace ddprun::trainer
