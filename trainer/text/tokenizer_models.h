// Tokenizers out of what their files hold, with the tokens that `transformers` would add.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/text/byte_pair.h"
#include "trainer/text/text_frame.h"
#include "trainer/text/tokenizer_files.h"
#include "trainer/text/word_piece.h"

namespace ddprun::trainer {

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
