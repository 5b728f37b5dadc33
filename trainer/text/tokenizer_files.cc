#include "trainer/text/tokenizer_files.h"

#include <cctype>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

namespace ddprun::trainer {

namespace {

using nlohmann::json;
using Path = std::filesystem::path;

constexpr const char* kRoles[] = {"unk", "sep", "pad", "cls", "mask", "bos", "eos"};
constexpr uintmax_t kMaxFile = uintmax_t{1} << 30;

std::optional<bool> OptionalBool(const Path& file, const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (!found->is_boolean()) {
    throw BrokenTokenizer(file, "\"" + std::string(key) + "\" is " + found->dump() +
                                    "; true, false or null is expected.");
  }
  return found->get<bool>();
}

bool Flag(const Path& file, const json& object, const char* key) {
  return OptionalBool(file, object, key).value_or(false);
}

// Reads a special token, which is a text or an object.
AddedToken ReadSpecialToken(const Path& file, const json& entry) {
  AddedToken token;
  if (entry.is_string()) {
    token.content = entry.get<std::string>();
  } else {
    token = ReadAddedToken(file, entry);
  }
  token.special = true;
  token.normalized = false;
  return token;
}

void ReadSpecialTokens(const Path& file, const json& object, TokenizerConfig& config) {
  for (const char* role : kRoles) {
    const auto found = object.find(std::string(role) + "_token");
    if (found == object.end() || found->is_null() || config.roles.contains(role)) continue;
    config.roles[role] = ReadSpecialToken(file, *found);
  }
  const auto more = object.find("additional_special_tokens");
  if (more == object.end() || !more->is_array() || !config.additional.empty()) return;
  for (const json& entry : *more) config.additional.push_back(ReadSpecialToken(file, entry));
}

// Reads "extra_special_tokens": a list, or tokens by name. In both, their order gives their ids.
void ReadExtraTokens(const Path& file, TokenizerConfig& config) {
  const auto object = nlohmann::ordered_json::parse(ReadTextFile(file));
  for (const auto& entry : object.at("extra_special_tokens")) {
    config.extra.push_back(ReadSpecialToken(file, json(entry)));
  }
}

int32_t ReadId(const Path& file, const std::string& token, const json& id) {
  if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > kMaxTokenId) {
    throw BrokenTokenizer(file, "The token \"" + token + "\" has the id " + id.dump() +
                                    "; a number from 0 to " + std::to_string(kMaxTokenId) +
                                    " is expected.");
  }
  return id.get<int32_t>();
}

// Returns the lower-case name of the class without "TokenizerFast"; "" if the file names none.
std::string ClassKind(const json& object) {
  const auto name = object.find("tokenizer_class");
  if (name == object.end() || !name->is_string()) return "";
  auto kind = name->get<std::string>();
  for (char& c : kind) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return kind.substr(0, kind.rfind("tokenizer"));
}

// Returns the kind for a folder whose tokenizer_config.json names no class.
std::string KindOfModel(const Path& file) {
  if (!std::filesystem::exists(file)) return "";
  const json object = ReadJsonObject(file);
  const std::string kind = ClassKind(object);
  const auto type = object.find("model_type");
  if (!kind.empty() || type == object.end() || !type->is_string()) return kind;
  return type->get<std::string>();
}

void ReadTokenizerConfigFile(const Path& file, TokenizerConfig& config) {
  const json object = ReadJsonObject(file);
  config.do_lower_case = OptionalBool(file, object, "do_lower_case");
  config.strip_accents = OptionalBool(file, object, "strip_accents");
  config.tokenize_chinese_chars = OptionalBool(file, object, "tokenize_chinese_chars");
  config.add_prefix_space = OptionalBool(file, object, "add_prefix_space");
  config.add_bos_token = OptionalBool(file, object, "add_bos_token");
  config.add_eos_token = OptionalBool(file, object, "add_eos_token");
  config.kind = ClassKind(object);
  config.clean_up = Flag(file, object, "clean_up_tokenization_spaces");
  if (Flag(file, object, "split_special_tokens")) {
    throw UnsupportedTokenizer(file, "It has split_special_tokens, which is not supported.");
  }
  ReadSpecialTokens(file, object, config);
  if (object.contains("extra_special_tokens")) ReadExtraTokens(file, config);
  const auto added = object.find("added_tokens_decoder");
  if (added == object.end() || !added->is_object()) return;
  config.added_has_flags = true;
  for (const auto& [id, entry] : added->items()) {
    AddedToken token = ReadAddedToken(file, entry);
    token.id = ReadId(file, token.content, json::parse(id, nullptr, false));
    config.added.push_back(std::move(token));
  }
}

}  // namespace

Failure BrokenTokenizer(const Path& file, const std::string& what) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "BROKEN TOKENIZER",
                       .where = file.string(),
                       .what = what,
                       .hint = "Copy the file again from where the model was published.",
                       .page = "broken-tokenizer"});
}

Failure UnsupportedTokenizer(const Path& file, const std::string& what) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "UNSUPPORTED TOKENIZER",
                       .where = file.string(),
                       .what = what,
                       .hint = "Tokenize the text elsewhere and train on token files (.bin).",
                       .page = "unsupported-tokenizer"});
}

std::string ReadTextFile(const Path& file) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(file, error);
  std::ifstream stream(file, std::ios::binary);
  std::string text;
  if (!error && size <= kMaxFile && stream) {
    text.resize(size);
    stream.read(text.data(), static_cast<std::streamsize>(size));
    if (stream.gcount() == static_cast<std::streamsize>(size)) return text;
  }
  throw BrokenTokenizer(file, error             ? "It cannot be read: " + error.message() + "."
                              : size > kMaxFile ? "It is larger than 1 GiB."
                                                : "It cannot be read.");
}

json ReadJsonObject(const Path& file) {
  try {
    json object = json::parse(ReadTextFile(file));
    if (!object.is_object()) throw BrokenTokenizer(file, "A JSON object is expected.");
    return object;
  } catch (const json::exception& error) {
    throw BrokenTokenizer(file, "It is no JSON: " + std::string(error.what()));
  }
}

AddedToken ReadAddedToken(const Path& file, const json& entry) {
  const auto content = entry.is_object() ? entry.find("content") : entry.end();
  if (!entry.is_object() || content == entry.end() || !content->is_string()) {
    throw BrokenTokenizer(
        file, "An added token is " + entry.dump() + "; an object with a \"content\" is expected.");
  }
  AddedToken token{.content = content->get<std::string>(),
                   .left_strip = Flag(file, entry, "lstrip"),
                   .right_strip = Flag(file, entry, "rstrip"),
                   .special = Flag(file, entry, "special")};
  token.normalized = OptionalBool(file, entry, "normalized").value_or(!token.special);
  if (Flag(file, entry, "single_word")) {
    throw UnsupportedTokenizer(
        file, "The added token \"" + token.content + "\" has single_word, which is not supported.");
  }
  return token;
}

std::vector<std::pair<std::string, int32_t>> ReadVocabularyObject(const Path& file,
                                                                  const json& vocabulary) {
  if (!vocabulary.is_object() || vocabulary.empty()) {
    throw BrokenTokenizer(file, "The vocabulary is no object of tokens and ids, or is empty.");
  }
  std::vector<std::pair<std::string, int32_t>> tokens;
  tokens.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) {
    tokens.emplace_back(token, ReadId(file, token, id));
  }
  return tokens;
}

TokenizerConfig ReadTokenizerConfig(const Path& folder) {
  TokenizerConfig config;
  if (const Path file = folder / "tokenizer_config.json"; std::filesystem::exists(file)) {
    ReadTokenizerConfigFile(file, config);
  }
  if (config.kind.empty()) config.kind = KindOfModel(folder / "config.json");
  if (const Path file = folder / "special_tokens_map.json"; std::filesystem::exists(file)) {
    ReadSpecialTokens(file, ReadJsonObject(file), config);
  }
  const Path file = folder / "added_tokens.json";
  if (!config.added.empty() || !std::filesystem::exists(file)) return config;
  const json tokens = ReadJsonObject(file);
  for (const auto& [content, id] : tokens.items()) {
    config.added.push_back(
        {.id = ReadId(file, content, id), .content = content, .normalized = true});
  }
  return config;
}

}  // namespace ddprun::trainer
