// What a language model writes when its training has ended.
#pragma once

#include <string>

#include "trainer/config/config.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

// evaluation.sample_prompt and what follows it, evaluation.sample_length tokens at most, as text
// that a terminal can show: the tokens of data.tokenizer, or bytes where there is none.
// Throws Failure when the tokenizer cannot be read.
std::string SampleText(LanguageModel& model, const Config& config);

}  // namespace ddprun::trainer
