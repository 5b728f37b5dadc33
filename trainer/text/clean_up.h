// Removes blanks before . ? ! , and in short forms such as "do n't", like Hugging Face's decoders.
// LibTorch-free; pure.
#pragma once

#include <string>

namespace ddprun::trainer {

// The decoder "WordPiece" of `tokenizers`, for each token.
void CleanUpToken(std::string& token);

// clean_up_tokenization_spaces of `transformers`, for a whole text.
void CleanUpText(std::string& text);

}  // namespace ddprun::trainer
