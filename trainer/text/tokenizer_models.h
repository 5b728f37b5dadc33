// Tokenizers out of what their files hold, with the tokens that `transformers` would add.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "trainer/text/byte_pair.h"
#include "trainer/text/tokenizer_files.h"
#include "trainer/text/word_piece.h"

namespace ddprun::trainer {

// The tokens that a tokenizer's own settings put around a text.

// As the vocabulary spells them.
struct TextFrame {
  std::vector<std::string> before;
  std::vector<std::string> after;
};

// What a post_processor of tokenizer.json puts around a single text; null: nothing. `file` is for
// messages. Throws Failure: it is of no known type. Throws nlohmann::json::exception: a part of it
// is missing or of another kind.
TextFrame ReadPostProcessor(const std::filesystem::path& file, const nlohmann::json& section);

// By add_bos_token and add_eos_token, with what counts where the first is not given.
TextFrame FrameOf(const TokenizerConfig& config, bool add_bos_otherwise);

using TokenList = std::vector<std::pair<std::string, int32_t>>;

// `added`, then what the configuration adds: tokens with ids, and special tokens, which take the
// next free id where no token is spelt so.
std::vector<AddedToken> CompleteAddedTokens(std::vector<AddedToken> added,
                                            const TokenizerConfig& config,
                                            const TokenList& tokens);

struct BytePairParts {
  TokenList tokens;
  std::vector<AddedToken> added;
  std::vector<std::pair<std::string, std::string>> merges;
  bool needs_all_bytes = false;  // there is an unknown token, which must never be needed
  TextFrame frame;
};

// `file` is for messages. Throws Failure: a merge is of what is no token; the unknown token, a
// byte that is needed, or a token around texts is no token.
std::unique_ptr<Tokenizer> MakeBytePair(const std::filesystem::path& file,
                                        BytePairParts parts,
                                        const TokenizerConfig& config,
                                        BytePairOptions options);
std::unique_ptr<Tokenizer> MakeWordPiece(const std::filesystem::path& file,
                                         TokenList tokens,
                                         std::vector<AddedToken> added,
                                         const TokenizerConfig& config,
                                         const std::string& unknown,
                                         WordPieceOptions options);

// "a b" in two. Throws Failure: it is not two words.
std::pair<std::string, std::string> SplitMerge(const std::filesystem::path& file,
                                               const std::string& line);

}  // namespace ddprun::trainer
