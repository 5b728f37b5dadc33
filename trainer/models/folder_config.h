// A model folder's config.json, value by value, with messages that name the key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "trainer/models/registry.h"

namespace ddprun::trainer {

// Every method throws Failure when the value is of another kind than asked for. A key that is
// missing or null counts as `fallback`.
class FolderConfig {
 public:
  // Throws Failure when the file (config.json) is not in the folder, or is no JSON object.
  explicit FolderConfig(const std::string& folder);
  FolderConfig(const std::string& folder, const char* name);
  // For an object inside; `path` is the file.
  FolderConfig(std::filesystem::path path, nlohmann::json object);

  bool Has(const char* key) const { return !Value(key).is_null(); }
  // From 0 to 2^31 - 1.
  int64_t Size(const char* key, int64_t fallback) const;
  // Under either of two names; both may stand there if they agree.
  int64_t Size(const char* key, const char* alias, int64_t fallback) const;
  double Number(const char* key, double fallback) const;
  double Positive(const char* key, double fallback) const;
  double Probability(const char* key, double fallback) const;  // [0, 1)
  bool Flag(const char* key, bool fallback) const;
  std::string Text(const char* key, const std::string& fallback) const;
  // An object; empty where there is none.
  FolderConfig Object(const char* key) const;
  const nlohmann::json& json() const { return json_; }

  // Throws unless the flag is `expected` or missing: the model here knows nothing else.
  void Require(const char* key, bool expected) const;
  // Throws, saying why, unless the key is missing, null or an empty object or list.
  void RequireNone(const char* key, const std::string& why) const;
  // What is wrong with a key: "model_type is "x"; "bert" was expected."
  Failure Unexpected(const char* key, const std::string& expected) const;
  Failure Broken(const std::string& what) const;

 private:
  nlohmann::json Value(const char* key) const;

  std::filesystem::path path_;
  nlohmann::json json_;
};

// ReadModelOptions (pretrained.h) of a folder that has this config.json.
ModelOptions ReadModelOptions(const FolderConfig& config);

}  // namespace ddprun::trainer
