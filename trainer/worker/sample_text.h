// What a language model writes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/config/config.h"
#include "trainer/models/generate.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

// With its weights. Throws Failure when the folder (models/pretrained.h) cannot be used or holds a
// model of another kind.
std::shared_ptr<LanguageModel> OpenLanguageModel(const std::string& folder);

struct TextOptions {
  std::string prompt;          // UTF-8
  std::string model;           // folder whose eos_token_id ends a text; empty: the tokenizer's does
  std::string tokenizer;       // its folder (text/tokenizer.h); empty: bytes are tokens
  int64_t max_new_tokens = 0;  // the text ends earlier at a stop token
  SamplingOptions sampling;    // vocab_size and stop_tokens are set by WriteText
  bool stop_at_end = true;     // false: what ends a text is a token as any other
};

// `own`, or what the folder's generation_config.json says: with do_sample the temperature, top_k
// and top_p that transformers' generate() would take, and the likeliest token where that is false.
// Throws Failure.
SamplingOptions SamplingOf(const std::string& folder, SamplingOptions own);

struct WrittenText {
  std::string text;        // what follows the prompt, as a terminal can show it
  int64_t new_tokens = 0;  // without the end of text
};

// The prompt stands between the tokens that the tokenizer puts around a text. Without any token the
// text begins as after the end of another: after a line feed where bytes are tokens.
// Throws Failure when the tokenizer cannot be read or has more tokens than the model.
WrittenText WriteText(LanguageModel& model, const TextOptions& options);

// evaluation.sample_prompt and what follows it, evaluation.sample_length tokens at most, with
// data.tokenizer and the stop tokens of the folder model.name_or_path; or why there is none, since
// a run that is through has not failed.
std::string SampleText(LanguageModel& model, const Config& config);

}  // namespace ddprun::trainer
