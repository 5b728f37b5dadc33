// Reads the small JSON files beside a vocabulary, and makes the error messages about them.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/failure.h"
#include "trainer/text/added_tokens.h"
#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {

// The contents of tokenizer_config.json, special_tokens_map.json and added_tokens.json.
struct TokenizerConfig {
  // "distilbert": `transformers` makes a DistilBertTokenizer of the folder; empty: it does not say.
  std::string kind;
  std::optional<bool> do_lower_case;
  std::optional<bool> strip_accents;
  std::optional<bool> tokenize_chinese_chars;
  std::optional<bool> add_prefix_space;
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  bool clean_up = false;  // Decode() ends with CleanUpText()
  // Special tokens by role without "_token": unk, sep, pad, cls, mask, bos, eos. Ids are -1.
  std::map<std::string, AddedToken> roles;
  std::vector<AddedToken> additional;  // special tokens without a role; ids are -1
  std::vector<AddedToken> extra;       // like them, behind them
  std::vector<AddedToken> added;       // tokens with an id
  bool added_has_flags = false;        // `added` overrides flags that tokenizer.json gives a token
};

// Reads the files. A missing file sets nothing. Throws Failure.
TokenizerConfig ReadTokenizerConfig(const std::filesystem::path& folder);

// Reads a JSON object. Throws Failure if the file cannot be read, or is not a JSON object.
nlohmann::json ReadJsonObject(const std::filesystem::path& file);
// Reads a text of at most 1 GiB. Throws Failure.
std::string ReadTextFile(const std::filesystem::path& file);

// Reads an entry of "added_tokens", without its id. Throws Failure.
AddedToken ReadAddedToken(const std::filesystem::path& file, const nlohmann::json& entry);

// Reads the tokens of a vocabulary. Throws Failure if an id is not a number, negative or huge.
std::vector<std::pair<std::string, int32_t>> ReadVocabularyObject(const std::filesystem::path& file,
                                                                  const nlohmann::json& vocabulary);

// Returns the ids of the roles. find(text) returns an id, or -1.
template <class Find>
SpecialIds SpecialIdsOf(const std::map<std::string, AddedToken>& roles, const Find& find) {
  const auto id = [&](const char* role) {
    const auto found = roles.find(role);
    return found == roles.end() ? -1 : find(found->second.content);
  };
  return {.unknown = id("unk"),
          .cls = id("cls"),
          .sep = id("sep"),
          .pad = id("pad"),
          .bos = id("bos"),
          .eos = id("eos")};
}

Failure BrokenTokenizer(const std::filesystem::path& file, const std::string& what);
Failure UnsupportedTokenizer(const std::filesystem::path& file, const std::string& what);

constexpr int64_t kMaxTokenId = (1 << 24) - 1;

// Loads tokenizer.json, Hugging Face's single file for a whole tokenizer.

// Loads the file. Ignores its truncation and padding, because callers do both. `config` overrides
// the settings that it overrides in `transformers`. Throws Failure.
std::unique_ptr<Tokenizer> LoadTokenizerJson(const std::filesystem::path& file,
                                             const TokenizerConfig& config);

}  // namespace ddprun::trainer
