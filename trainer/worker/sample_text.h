// Lets a language model write text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/models/generate.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

// Opens a model with its weights on a device. Throws Failure if the folder (models/pretrained.h)
// cannot be used or has a model of another kind.
std::shared_ptr<LanguageModel> OpenLanguageModel(const std::string& folder, at::Device device);

struct TextOptions {
  std::string prompt;          // UTF-8
  std::string model;           // folder whose eos_token_id ends a text; empty: the tokenizer's does
  std::string tokenizer;       // its folder (text/tokenizer.h); empty: bytes are tokens
  int64_t max_new_tokens = 0;  // the text ends earlier at a stop token
  SamplingOptions sampling;    // vocab_size and stop_tokens are set by WriteText
  bool stop_at_end = true;     // false: a stop token is a token like any other
  // The text ends before the first of these words, which is not part of it. None is empty.
  std::vector<std::string> stop_words = {};
};

// Returns `own`, or if the folder's generation_config.json has do_sample, what transformers'
// generate() takes: temperature, top_k and top_p if it is true, else the likeliest token. Throws
// Failure.
SamplingOptions SamplingOf(const std::string& folder, SamplingOptions own);

struct WrittenText {
  std::string text;        // the text after the prompt, safe to show on a terminal
  int64_t new_tokens = 0;  // without the end of text, but with a stop word
};

// Continues the prompt, with the tokens that the tokenizer puts around a text. If there is no
// token, begins a new document; if bytes are tokens, with a line feed. Throws Failure if the
// tokenizer cannot be read or has more tokens than the model.
WrittenText WriteText(LanguageModel& model, const TextOptions& options);

// Returns evaluation.sample_prompt and at most evaluation.sample_length more tokens, with
// data.tokenizer and the stop tokens of the folder model.name_or_path. If this fails, returns why,
// because the run itself has not failed.
std::string SampleText(LanguageModel& model, const Config& config);

}  // namespace ddprun::trainer
