// Tokenizers from folders as Hugging Face's save_pretrained writes them. LibTorch-free.
#pragma once

#include <memory>
#include <string>

#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {

// `folder` is a folder, or one of its files that are named here. What counts, the first that is
// there: tokenizer.json (WordPiece or byte-level BPE), vocab.txt (WordPiece), vocab.json with
// merges.txt (byte-level BPE of GPT-2). tokenizer_config.json, special_tokens_map.json and
// added_tokens.json add what they add in `transformers`.
// Throws Failure: nothing is there, a file is broken, or it asks for what is not supported here
// (by its name, so that no text is ever tokenized in another way than the model was trained with).
std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& folder);

// Whether the folder has a file that LoadTokenizer would begin with; it may still refuse it.
bool HasTokenizer(const std::string& folder);

}  // namespace ddprun::trainer
