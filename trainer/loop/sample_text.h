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
  std::string tokenizer;       // its folder (text/load_tokenizer.h); empty: bytes are tokens
  int64_t max_new_tokens = 0;  // the text ends earlier at the tokenizer's end of text
  SamplingOptions sampling;    // stop_token and vocab_size are the tokenizer's
  bool stop_at_end = true;     // false: the end of text is a token as any other
};

struct WrittenText {
  std::string text;        // what follows the prompt, as a terminal can show it
  int64_t new_tokens = 0;  // without the end of text
};

// Without a prompt the text begins as after the end of another: a line feed where bytes are tokens.
// Throws Failure when the tokenizer cannot be read or has more tokens than the model.
WrittenText WriteText(LanguageModel& model, const TextOptions& options);

// evaluation.sample_prompt and what follows it, evaluation.sample_length tokens at most, with
// data.tokenizer. Throws as WriteText.
std::string SampleText(LanguageModel& model, const Config& config);

}  // namespace ddprun::trainer
