#include <filesystem>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/text/tokenizer.h"
#include "trainer/text/tokenizer_files.h"
#include "trainer/text/tokenizer_models.h"

namespace ddprun::trainer {

namespace {

using Path = std::filesystem::path;

constexpr std::pair<const char*, const char*> kBertRoles[] = {
    {"unk", "[UNK]"}, {"sep", "[SEP]"}, {"pad", "[PAD]"}, {"cls", "[CLS]"}, {"mask", "[MASK]"}};
constexpr std::pair<const char*, const char*> kGpt2Roles[] = {
    {"unk", "<|endoftext|>"}, {"bos", "<|endoftext|>"}, {"eos", "<|endoftext|>"}};

template <class Roles>
void AddDefaultRoles(const Roles& roles, TokenizerConfig& config) {
  for (const auto& [role, content] : roles) {
    config.roles.try_emplace(role, AddedToken{.content = content, .special = true});
  }
}

// Returns the lines, which end as in Python's text files: \n, \r\n or \r.
std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find_first_of("\r\n", begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + (text.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  return lines;
}

std::unique_ptr<Tokenizer> LoadVocabularyText(const Path& file, TokenizerConfig config) {
  AddDefaultRoles(kBertRoles, config);
  // A token on two lines has the id of the last one.
  std::unordered_map<std::string, int32_t> ids;
  const std::vector<std::string> lines = Lines(ReadTextFile(file));
  if (lines.size() > static_cast<size_t>(kMaxTokenId)) {
    throw BrokenTokenizer(file, "It has " + std::to_string(lines.size()) + " lines.");
  }
  for (const std::string& line : lines) {
    ids.insert_or_assign(line, static_cast<int32_t>(&line - lines.data()));
  }
  TokenList tokens(ids.begin(), ids.end());
  std::vector<AddedToken> added = CompleteAddedTokens({}, config, tokens);
  WordPieceOptions options;
  options.clean_up = config.clean_up;
  options.normalizer.lowercase = config.do_lower_case.value_or(true);
  options.normalizer.strip_accents = config.strip_accents.value_or(options.normalizer.lowercase);
  options.normalizer.handle_chinese_chars = config.tokenize_chinese_chars.value_or(true);
  const std::string unknown = config.roles.at("unk").content;
  if (!ids.contains(unknown)) {
    throw BrokenTokenizer(file, "The token for unknown words, \"" + unknown +
                                    "\", is on none of its " + std::to_string(lines.size()) +
                                    " lines.");
  }
  return MakeWordPiece(file, std::move(tokens), std::move(added), config, unknown,
                       std::move(options));
}

std::unique_ptr<Tokenizer> LoadVocabularyAndMerges(const Path& vocabulary,
                                                   const Path& merges,
                                                   TokenizerConfig config) {
  AddDefaultRoles(kGpt2Roles, config);
  BytePairParts parts;
  parts.tokens = ReadVocabularyObject(vocabulary, ReadJsonObject(vocabulary));
  parts.added = CompleteAddedTokens({}, config, parts.tokens);
  // GPT2TokenizerFast ignores add_eos_token.
  config.add_eos_token = false;
  parts.frame = FrameOf(config, /*add_bos_otherwise=*/false);
  const std::vector<std::string> lines = Lines(ReadTextFile(merges));
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty() || (i == 0 && lines[i].starts_with("#version"))) continue;
    parts.merges.push_back(SplitMerge(merges, lines[i]));
  }
  BytePairOptions options;
  options.add_prefix_space = config.add_prefix_space.value_or(false);
  options.clean_up = config.clean_up;
  return MakeBytePair(merges, std::move(parts), config, options);
}

Failure NotFound(const std::string& folder) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "NO TOKENIZER",
                       .where = folder,
                       .what = "\"" + folder +
                               "\" has no tokenizer.json, no vocab.txt, and no vocab.json with "
                               "merges.txt.",
                       .hint = "Name a folder that holds one of them, as published with a model "
                               "or written by save_pretrained().",
                       .page = "no-tokenizer"});
}

}  // namespace

std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& folder) {
  const Path named(folder);
  const bool is_folder = std::filesystem::is_directory(named);
  const Path base = is_folder ? named : named.parent_path();
  const auto given = [&](const char* name) {
    return (is_folder || named.filename() == name) && std::filesystem::exists(base / name);
  };
  if (given("tokenizer.json")) {
    return LoadTokenizerJson(base / "tokenizer.json", ReadTokenizerConfig(base));
  }
  if (given("vocab.txt")) {
    return LoadVocabularyText(base / "vocab.txt", ReadTokenizerConfig(base));
  }
  if (given("vocab.json") && std::filesystem::exists(base / "merges.txt")) {
    return LoadVocabularyAndMerges(base / "vocab.json", base / "merges.txt",
                                   ReadTokenizerConfig(base));
  }
  throw NotFound(folder);
}

bool HasTokenizer(const std::string& folder) {
  const auto is_there = [&](const char* name) {
    return std::filesystem::exists(Path(folder) / name);
  };
  return is_there("tokenizer.json") || is_there("vocab.txt") || is_there("vocab.json");
}

}  // namespace ddprun::trainer
