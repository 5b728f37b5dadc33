// Reads a model folder's config.json value by value, with error messages that name the key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "trainer/models/registry.h"

namespace ddprun::trainer {

// Every method throws Failure if a value does not have the requested kind. For a key that is
// missing or null it returns `fallback`.
class FolderConfig {
 public:
  // Throws Failure if the file (config.json) is not in the folder, or is not a JSON object.
  explicit FolderConfig(const std::string& folder);
  FolderConfig(const std::string& folder, const char* name);
  // Reads an object inside the file `path`.
  FolderConfig(std::filesystem::path path, nlohmann::json object);

  bool Has(const char* key) const { return !Value(key).is_null(); }
  // Returns a number from 0 to 2^31 - 1.
  int64_t Size(const char* key, int64_t fallback) const;
  // Returns the value of either key. Both may exist if they agree.
  int64_t Size(const char* key, const char* alias, int64_t fallback) const;
  double Number(const char* key, double fallback) const;
  double Positive(const char* key, double fallback) const;
  double Probability(const char* key, double fallback) const;  // [0, 1)
  bool Flag(const char* key, bool fallback) const;
  std::string Text(const char* key, const std::string& fallback) const;
  // Returns an object; an empty one if the key is missing.
  FolderConfig Object(const char* key) const;
  const nlohmann::json& json() const { return json_; }

  // Throws unless the flag is `expected` or missing; the model here supports nothing else.
  void Require(const char* key, bool expected) const;
  // Throws with the reason `why`, unless the key is missing, null or an empty object or list.
  void RequireNone(const char* key, const std::string& why) const;
  // Returns an error about a key: "model_type is "x"; "bert" was expected."
  Failure Unexpected(const char* key, const std::string& expected) const;
  Failure Broken(const std::string& what) const;

 private:
  nlohmann::json Value(const char* key) const;

  std::filesystem::path path_;
  nlohmann::json json_;
};

// Returns ReadModelOptions() (pretrained.h) of a folder with this config.json.
ModelOptions ReadModelOptions(const FolderConfig& config);

}  // namespace ddprun::trainer
