#include "trainer/loop/sample_text.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/models/generate.h"
#include "trainer/text/load_tokenizer.h"

namespace ddprun::trainer {

namespace {

// What is no UTF-8 becomes U+FFFD; control characters, which might move the cursor or worse,
// become '.'.
std::string Presentable(std::string text) {
  for (char& c : text) {
    const auto code = static_cast<unsigned char>(c);
    if ((code < 0x20 && c != '\n' && c != '\t') || code == 0x7f) c = '.';
  }
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string SampleBytes(LanguageModel& model, const Config& config) {
  const EvaluationConfig& evaluation = config.evaluation;
  return Generate(model, {.prompt = evaluation.sample_prompt,
                          .length = evaluation.sample_length,
                          .temperature = evaluation.sample_temperature,
                          .top_k = evaluation.sample_top_k,
                          .top_p = evaluation.sample_top_p,
                          .seed = static_cast<uint64_t>(config.run.seed)});
}

std::string SampleTokens(LanguageModel& model, const Config& config) {
  const EvaluationConfig& evaluation = config.evaluation;
  const auto tokenizer = LoadTokenizer(config.data.tokenizer);
  std::vector<int32_t> prompt;
  tokenizer->Encode(evaluation.sample_prompt, prompt);
  // An empty prompt asks for the beginning of a document, which comes after the end of another.
  const SpecialIds& special = tokenizer->special();
  if (prompt.empty()) prompt.push_back(special.bos >= 0 ? special.bos : std::max(special.eos, 0));
  const std::vector<int64_t> tokens = GenerateTokens(
      model, std::vector<int64_t>(prompt.begin(), prompt.end()), evaluation.sample_length,
      {.temperature = evaluation.sample_temperature,
       .top_k = evaluation.sample_top_k,
       .top_p = evaluation.sample_top_p,
       .seed = static_cast<uint64_t>(config.run.seed),
       .stop_token = special.eos,
       .vocab_size = tokenizer->vocab_size()});
  return tokenizer->Decode(std::vector<int32_t>(tokens.begin(), tokens.end()));
}

}  // namespace

std::string SampleText(LanguageModel& model, const Config& config) {
  const std::string text =
      config.data.tokenizer.empty() ? SampleBytes(model, config) : SampleTokens(model, config);
  return Presentable(config.evaluation.sample_prompt + text);
}

}  // namespace ddprun::trainer
