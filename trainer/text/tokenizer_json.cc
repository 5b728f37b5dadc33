#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/text/byte_pair.h"
#include "trainer/text/tokenizer_files.h"
#include "trainer/text/tokenizer_models.h"
#include "trainer/text/word_piece.h"

namespace ddprun::trainer {

namespace {

using nlohmann::json;
using Path = std::filesystem::path;

constexpr const char* kGpt2Rule =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Rule =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kOneDigitRule =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Kinds (TokenizerConfig) whose class in `transformers` works like BertTokenizerFast,
// MPNetTokenizerFast or LlamaTokenizerFast. Some are types of models with such a tokenizer.
constexpr std::string_view kBertKinds =
    " align bark bert blip bros chinese_clip convbert distilbert dpr dprcontextencoder "
    "dprquestionencoder dprreader electra ernie funnel git grounding-dino layoutlm lxmert "
    "megatron-bert mm-grounding-dino mobilebert nezha qdqbert realm retribert squeezebert tvp vilt "
    "visual_bert ";
constexpr std::string_view kMpnetKinds = " layoutlmv2 mpnet splinter ";
constexpr std::string_view kLlamaKinds =
    " arcee aria chameleon colpali deepseek_v2 deepseek_v3 deepseek_vl deepseek_vl_hybrid "
    "diffllama ernie4_5 ernie4_5_moe idefics idefics2 idefics3 jamba janus jetmoe llama llama4 "
    "llama4_text llava llava_next llava_next_video llava_onevision mistral mixtral mllama "
    "paligemma persimmon phi3 phimoe video_llava vipllava voxtral zamba zamba2 ";

bool Contains(std::string_view kinds, const std::string& kind) {
  return kinds.find(" " + kind + " ") != kinds.npos;
}

// Reads the values of one file by key, with messages that name the file and its part.
class Reader {
 public:
  Reader(Path file, json document) : file_(std::move(file)), document_(std::move(document)) {}

  const Path& file() const { return file_; }

  // Returns the section, or null.
  const json& Section(const char* key) const {
    static const json kNull;
    const auto found = document_.find(key);
    if (found == document_.end() || found->is_null()) return kNull;
    return *found;
  }

  std::string TypeOf(const json& section) const { return Text(section, "type", ""); }

  std::string Text(const json& section, const char* key, const char* otherwise) const {
    return Get<std::string>(section, key, otherwise, "a string");
  }
  bool Bool(const json& section, const char* key, bool otherwise) const {
    return Get<bool>(section, key, otherwise, "true or false");
  }
  int64_t Number(const json& section, const char* key, int64_t otherwise) const {
    return Get<int64_t>(section, key, otherwise, "a number");
  }

  Failure Unsupported(const char* part, const json& section) const {
    const std::string type = TypeOf(section);
    return UnsupportedTokenizer(file_, "Its " + std::string(part) + " is " +
                                           (type.empty() ? section.dump().substr(0, 200) : type) +
                                           ", which is not supported.");
  }

 private:
  template <class Value>
  Value Get(const json& section, const char* key, Value otherwise, const char* expected) const {
    if (!section.is_object()) {
      throw BrokenTokenizer(file_, "An object with \"" + std::string(key) + "\" is expected, not " +
                                       section.dump().substr(0, 200) + ".");
    }
    const auto found = section.find(key);
    if (found == section.end() || found->is_null()) return otherwise;
    try {
      return found->get<Value>();
    } catch (const json::exception&) {
      throw BrokenTokenizer(file_, "\"" + std::string(key) + "\" is " +
                                       found->dump().substr(0, 200) + "; " + expected +
                                       " is expected.");
    }
  }

  const Path file_;
  const json document_;
};

const json& VocabularyOf(const Reader& reader) {
  const json& model = reader.Section("model");
  const auto found = model.is_object() ? model.find("vocab") : model.end();
  if (!model.is_object() || found == model.end()) {
    throw BrokenTokenizer(reader.file(), "It has no \"model\" with a \"vocab\".");
  }
  return *found;
}

// Returns the file's added tokens and the configuration's, with their ids.
std::vector<AddedToken> AddedTokensOf(const Reader& reader,
                                      const TokenizerConfig& config,
                                      const TokenList& tokens) {
  std::vector<AddedToken> added;
  const json& list = reader.Section("added_tokens");
  for (const json& entry : list) {
    AddedToken token = ReadAddedToken(reader.file(), entry);
    const int64_t id = reader.Number(entry, "id", -1);
    if (id < 0 || id > kMaxTokenId) {
      throw BrokenTokenizer(reader.file(), "The added token \"" + token.content +
                                               "\" has no id, or one that is out of range.");
    }
    token.id = static_cast<int32_t>(id);
    added.push_back(std::move(token));
  }
  return CompleteAddedTokens(std::move(added), config, tokens);
}

void RequireNone(const Reader& reader, const json& model, const char* key) {
  const auto found = model.find(key);
  if (found == model.end() || found->is_null()) return;
  if (*found == "" || *found == false || *found == 0.0) return;
  throw UnsupportedTokenizer(reader.file(), "Its BPE model has \"" + std::string(key) + "\": " +
                                                found->dump() + ", which is not supported.");
}

// Reads a pre_tokenizer: ByteLevel alone, or after a Split by a known regular expression.
void ReadPreTokenizer(const Reader& reader, BytePairOptions& options) {
  const json& whole = reader.Section("pre_tokenizer");
  if (whole.is_null()) {
    throw UnsupportedTokenizer(reader.file(),
                               "It has no pre_tokenizer: this BPE is not on the level of bytes.");
  }
  if (reader.TypeOf(whole) == "ByteLevel" && reader.Bool(whole, "use_regex", true)) {
    options.add_prefix_space = reader.Bool(whole, "add_prefix_space", true);
    return;
  }
  const auto steps = whole.find("pretokenizers");
  if (reader.TypeOf(whole) != "Sequence" || steps == whole.end() || steps->size() != 2 ||
      reader.TypeOf((*steps)[0]) != "Split" || reader.TypeOf((*steps)[1]) != "ByteLevel" ||
      reader.Bool((*steps)[1], "use_regex", true)) {
    throw reader.Unsupported("pre_tokenizer", whole);
  }
  if (reader.Bool((*steps)[1], "add_prefix_space", true)) {
    throw UnsupportedTokenizer(reader.file(),
                               "Its pre_tokenizer is a Split before a ByteLevel "
                               "with add_prefix_space, which is not supported.");
  }
  const json& split = (*steps)[0];
  const auto pattern = split.find("pattern");
  const std::string rule =
      pattern == split.end() ? std::string() : reader.Text(*pattern, "Regex", "");
  const std::string behavior = reader.Text(split, "behavior", "");
  const bool invert = reader.Bool(split, "invert", false);
  if (!(behavior == "Isolated" && !invert) && !(behavior == "Removed" && invert)) {
    throw reader.Unsupported("pre_tokenizer", split);
  }
  if (rule == kGpt2Rule) {
    options.rule = WordRule::kGpt2;
  } else if (rule == kLlama3Rule) {
    options.rule = WordRule::kLlama3;
  } else if (rule == kOneDigitRule) {
    options.rule = WordRule::kOneDigit;
  } else {
    throw UnsupportedTokenizer(reader.file(), "Its pre_tokenizer splits by " + rule +
                                                  "; known are those of GPT-2, Llama 3 and "
                                                  "Qwen 2.");
  }
}

// Reads the merges, each of which is "a b" or ["a", "b"].
std::vector<std::pair<std::string, std::string>> MergesOf(const Reader& reader) {
  const json& model = reader.Section("model");
  const auto found = model.find("merges");
  if (found == model.end() || !found->is_array()) {
    throw BrokenTokenizer(reader.file(), "Its BPE model has no list of \"merges\".");
  }
  std::vector<std::pair<std::string, std::string>> merges;
  merges.reserve(found->size());
  for (const json& entry : *found) {
    if (entry.is_string()) {
      merges.push_back(SplitMerge(reader.file(), entry.get_ref<const std::string&>()));
    } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
               entry[1].is_string()) {
      merges.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
    } else {
      throw BrokenTokenizer(reader.file(), "A merge is " + entry.dump().substr(0, 200) + ".");
    }
  }
  return merges;
}

TextFrame FrameIn(const Reader& reader, const TokenizerConfig& config) {
  // LlamaTokenizerFast replaces the file's values by its own arguments or their defaults.
  return Contains(kLlamaKinds, config.kind)
             ? FrameOf(config, /*add_bos_otherwise=*/true)
             : ReadPostProcessor(reader.file(), reader.Section("post_processor"));
}

std::unique_ptr<Tokenizer> MakeBytePairFrom(const Reader& reader, const TokenizerConfig& config) {
  const json& model = reader.Section("model");
  const json& normalizer = reader.Section("normalizer");
  const bool no_steps = normalizer.is_object() && reader.TypeOf(normalizer) == "Sequence" &&
                        normalizer.value("normalizers", json::array()).empty();
  if (!normalizer.is_null() && !no_steps) throw reader.Unsupported("normalizer", normalizer);
  for (const char* key :
       {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}) {
    RequireNone(reader, model, key);
  }
  const json& decoder = reader.Section("decoder");
  if (decoder.is_null() || reader.TypeOf(decoder) != "ByteLevel") {
    throw reader.Unsupported("decoder", decoder);
  }
  BytePairOptions options;
  ReadPreTokenizer(reader, options);
  options.ignore_merges = reader.Bool(model, "ignore_merges", false);
  options.clean_up = config.clean_up;
  if (options.rule == WordRule::kGpt2 && config.add_prefix_space) {
    options.add_prefix_space = *config.add_prefix_space;
  }
  TokenList tokens = ReadVocabularyObject(reader.file(), VocabularyOf(reader));
  std::vector<AddedToken> added = AddedTokensOf(reader, config, tokens);
  const std::string unknown = reader.Text(model, "unk_token", "");
  return MakeBytePair(reader.file(),
                      {.tokens = std::move(tokens),
                       .added = std::move(added),
                       .merges = MergesOf(reader),
                       .needs_all_bytes = !unknown.empty(),
                       .frame = FrameIn(reader, config)},
                      config, options);
}

std::optional<bool> OptionalBool(const Reader& reader, const json& section, const char* key) {
  const auto found = section.find(key);
  if (found == section.end() || found->is_null()) return std::nullopt;
  return reader.Bool(section, key, false);
}

BertNormalizerOptions ReadBertNormalizer(const Reader& reader, const TokenizerConfig& config) {
  const json& section = reader.Section("normalizer");
  if (section.is_null() || reader.TypeOf(section) != "BertNormalizer") {
    throw reader.Unsupported("normalizer", section);
  }
  BertNormalizerOptions options{
      .clean_text = reader.Bool(section, "clean_text", true),
      .handle_chinese_chars = reader.Bool(section, "handle_chinese_chars", true),
      .lowercase = reader.Bool(section, "lowercase", true)};
  std::optional<bool> strip = OptionalBool(reader, section, "strip_accents");
  // BertTokenizerFast replaces the file's values by its own arguments or their defaults.
  const bool like_mpnet = Contains(kMpnetKinds, config.kind);
  if (like_mpnet || Contains(kBertKinds, config.kind)) {
    options.lowercase = config.do_lower_case.value_or(true);
    strip = config.strip_accents;
    if (!like_mpnet) options.handle_chinese_chars = config.tokenize_chinese_chars.value_or(true);
  }
  options.strip_accents = strip.value_or(options.lowercase);
  return options;
}

std::unique_ptr<Tokenizer> MakeWordPieceFrom(const Reader& reader, const TokenizerConfig& config) {
  const json& model = reader.Section("model");
  const json& splitter = reader.Section("pre_tokenizer");
  if (splitter.is_null() || reader.TypeOf(splitter) != "BertPreTokenizer") {
    throw reader.Unsupported("pre_tokenizer", splitter);
  }
  const json& decoder = reader.Section("decoder");
  if (decoder.is_null() || reader.TypeOf(decoder) != "WordPiece") {
    throw reader.Unsupported("decoder", decoder);
  }
  WordPieceOptions options{.normalizer = ReadBertNormalizer(reader, config),
                           .special = {},
                           .continuation = reader.Text(model, "continuing_subword_prefix", "##"),
                           .max_word = reader.Number(model, "max_input_chars_per_word", 100),
                           .clean_up_tokens = reader.Bool(decoder, "cleanup", true),
                           .clean_up = config.clean_up};
  TokenList tokens = ReadVocabularyObject(reader.file(), VocabularyOf(reader));
  std::vector<AddedToken> added = AddedTokensOf(reader, config, tokens);
  return MakeWordPiece(reader.file(), std::move(tokens), std::move(added), config,
                       reader.Text(model, "unk_token", "[UNK]"), std::move(options));
}

}  // namespace

std::unique_ptr<Tokenizer> LoadTokenizerJson(const Path& file, const TokenizerConfig& config) {
  const Reader reader(file, ReadJsonObject(file));
  const json& model = reader.Section("model");
  if (!model.is_object()) throw BrokenTokenizer(file, "It has no \"model\".");
  std::string type = reader.TypeOf(model);
  // Old files have no type.
  if (type.empty()) {
    type = model.contains("merges")                     ? "BPE"
           : model.contains("max_input_chars_per_word") ? "WordPiece"
                                                        : "";
  }
  try {
    if (type == "BPE") return MakeBytePairFrom(reader, config);
    if (type == "WordPiece") return MakeWordPieceFrom(reader, config);
  } catch (const json::exception& error) {  // such as a list instead of an object
    throw BrokenTokenizer(
        file, "A part of it is of another kind than expected: " + std::string(error.what()));
  }
  throw UnsupportedTokenizer(file, "Its model is " + (type.empty() ? "of no known type" : type) +
                                       "; supported are WordPiece and byte-level BPE.");
}

}  // namespace ddprun::trainer
