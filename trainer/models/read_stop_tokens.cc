#include <filesystem>

#include "trainer/models/folder_config.h"
#include "trainer/models/pretrained.h"

namespace ddprun::trainer {

namespace {

constexpr const char* kKey = "eos_token_id";

// Returns a number or a list of numbers; none for null and an empty list.
std::vector<int64_t> TokensIn(const FolderConfig& config) {
  if (!config.Has(kKey)) return {};
  const nlohmann::json& value = config.json().at(kKey);
  std::vector<int64_t> tokens;
  for (const nlohmann::json& token : value.is_array() ? value : nlohmann::json::array({value})) {
    if (!token.is_number_integer()) {
      throw config.Unexpected(kKey, "the number of a token, or a list of such numbers");
    }
    tokens.push_back(token.get<int64_t>());
  }
  return tokens;
}

// Returns the default of transformers' configuration classes for a missing key.
std::vector<int64_t> DefaultOf(const std::string& model_type) {
  if (model_type == "gpt2") return {50256};
  if (model_type == "llama") return {2};
  return {};
}

}  // namespace

std::vector<int64_t> ReadStopTokens(const std::string& folder) {
  if (std::filesystem::exists(std::filesystem::path(folder) / kGenerationConfigName)) {
    std::vector<int64_t> tokens = TokensIn(FolderConfig(folder, kGenerationConfigName));
    if (!tokens.empty()) return tokens;
  }
  const FolderConfig config(folder);
  if (!config.json().contains(kKey)) return DefaultOf(config.Text("model_type", ""));
  return TokensIn(config);
}

}  // namespace ddprun::trainer
