#include "trainer/worker/sample_text.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "trainer/compute/math_kernels.h"
#include "trainer/models/folder_config.h"
#include "trainer/models/pretrained.h"
#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {

namespace {

constexpr int64_t kByteValues = 256;

// Replaces bytes that are not UTF-8 by U+FFFD, and control characters, which might move the cursor
// or worse, by '.'.
std::string Presentable(std::string text) {
  for (char& c : text) {
    const auto code = static_cast<unsigned char>(c);
    if ((code < 0x20 && c != '\n' && c != '\t') || code == 0x7f) c = '.';
  }
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}

std::vector<int64_t> BytesOf(const std::string& prompt) {
  if (prompt.empty()) return {'\n'};
  std::vector<int64_t> tokens;
  for (const char c : prompt) tokens.push_back(static_cast<uint8_t>(c));
  return tokens;
}

std::vector<int64_t> TokensOf(const std::string& prompt, const Tokenizer& tokenizer) {
  const SpecialIds& special = tokenizer.special();
  std::vector<int32_t> tokens = special.before;
  tokenizer.Encode(prompt, tokens);
  tokens.insert(tokens.end(), special.after.begin(), special.after.end());
  // An empty prompt asks for the beginning of a document, which comes after the end of another.
  if (tokens.empty()) tokens.push_back(special.bos >= 0 ? special.bos : std::max(special.eos, 0));
  return {tokens.begin(), tokens.end()};
}

std::string TextOf(std::span<const int64_t> tokens, const Tokenizer* tokenizer) {
  if (tokenizer != nullptr) {
    return tokenizer->Decode(std::vector<int32_t>(tokens.begin(), tokens.end()));
  }
  std::string text;
  for (const int64_t token : tokens) text.push_back(static_cast<char>(token));
  return text;
}

// Returns where the first of the words begins; npos: the text has none of them.
size_t FindFirst(const std::string& text, const std::vector<std::string>& words) {
  size_t first = text.npos;
  for (const std::string& word : words) first = std::min(first, text.find(word));
  return first;
}

std::vector<int64_t> StopTokens(const std::string& model_folder, const Tokenizer* tokenizer) {
  std::vector<int64_t> tokens;
  if (!model_folder.empty()) tokens = ReadStopTokens(model_folder);
  if (tokens.empty() && tokenizer != nullptr) tokens = {tokenizer->special().eos};
  return tokens;
}

void CheckVocabulary(const LanguageModel& model, const TextOptions& options, int64_t tokens) {
  if (tokens <= model.vocab_size()) return;
  const std::string owner = options.tokenizer.empty()
                                ? "Bytes have "
                                : "The tokenizer in \"" + options.tokenizer + "\" has ";
  throw Failure(Error{.code = Code::kUsage,
                      .title = "DATA AND MODEL DO NOT FIT",
                      .where = options.tokenizer,
                      .what = owner + std::to_string(tokens) +
                              " tokens, but the model has embeddings for " +
                              std::to_string(model.vocab_size()) + ".",
                      .hint = "Take the tokenizer that belongs to the model.",
                      .page = "data-and-model"});
}

}  // namespace

std::shared_ptr<LanguageModel> OpenLanguageModel(const std::string& folder, at::Device device) {
  const ModelOptions options = ReadModelOptions(folder);
  auto model =
      std::dynamic_pointer_cast<LanguageModel>(MakeModel(options, {}, /*initialize=*/false));
  if (!model) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "NOT A LANGUAGE MODEL",
                        .where = folder,
                        .what = "\"" + folder + "\" holds a model of type \"" + TypeOf(options) +
                                "\", which does not predict the next token.",
                        .hint = "Name a folder with a model of type gpt or llama.",
                        .page = "not-a-language-model"});
  }
  LoadWeights(*model, folder);
  model->to(device);
  ChooseMathKernels();
  return model;
}

SamplingOptions SamplingOf(const std::string& folder, SamplingOptions own) {
  if (!std::filesystem::exists(std::filesystem::path(folder) / kGenerationConfigName)) return own;
  const FolderConfig config(folder, kGenerationConfigName);
  if (!config.Has("do_sample")) return own;
  own.temperature = config.Flag("do_sample", false) ? config.Positive("temperature", 1.0) : 0;
  own.top_k = config.Size("top_k", 50);
  own.top_p = config.Positive("top_p", 1.0);
  return own;
}

WrittenText WriteText(LanguageModel& model, const TextOptions& options) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) tokenizer = LoadTokenizer(options.tokenizer);
  SamplingOptions sampling = options.sampling;
  sampling.vocab_size = tokenizer ? tokenizer->vocab_size() : kByteValues;
  if (options.stop_at_end) sampling.stop_tokens = StopTokens(options.model, tokenizer.get());
  if (!options.stop_words.empty()) {
    sampling.ends = [&](std::span<const int64_t> tokens) {
      return FindFirst(TextOf(tokens, tokenizer.get()), options.stop_words) != std::string::npos;
    };
  }
  CheckVocabulary(model, options, sampling.vocab_size);
  const std::vector<int64_t> prompt =
      tokenizer ? TokensOf(options.prompt, *tokenizer) : BytesOf(options.prompt);
  const std::vector<int64_t> tokens =
      GenerateTokens(model, prompt, options.max_new_tokens, sampling);
  const std::string text = TextOf(tokens, tokenizer.get());
  return {.text = Presentable(text.substr(0, FindFirst(text, options.stop_words))),
          .new_tokens = static_cast<int64_t>(tokens.size())};
}

std::string SampleText(LanguageModel& model, const Config& config) {
  const EvaluationConfig& evaluation = config.evaluation;
  const std::string& source = config.model.name_or_path;
  const TextOptions options{.prompt = evaluation.sample_prompt,
                            .model = std::filesystem::is_directory(source) ? source : "",
                            .tokenizer = config.data.tokenizer,
                            .max_new_tokens = evaluation.sample_length,
                            .sampling = {.temperature = evaluation.sample_temperature,
                                         .top_k = evaluation.sample_top_k,
                                         .top_p = evaluation.sample_top_p,
                                         .seed = static_cast<uint64_t>(config.run.seed)}};
  try {
    return Presentable(evaluation.sample_prompt) + WriteText(model, options).text;
  } catch (const Failure& failure) {
    return "none: " + failure.error().where + ": " + failure.error().what;
  }
}

}  // namespace ddprun::trainer
