// Makes tokenizers from the contents of their files, with the tokens that `transformers` adds.
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

// The tokens around a text, as the vocabulary spells them.
struct TextFrame {
  std::vector<std::string> before;
  std::vector<std::string> after;
};

// Returns the tokens that a post_processor of tokenizer.json puts around a single text; null means
// none. `file` is for messages. Throws Failure if its type is unknown. Throws
// nlohmann::json::exception if a part of it is missing or of another kind.
TextFrame ReadPostProcessor(const std::filesystem::path& file, const nlohmann::json& section);

// Returns the tokens for add_bos_token and add_eos_token. `add_bos_otherwise` is the default.
TextFrame FrameOf(const TokenizerConfig& config, bool add_bos_otherwise);

using TokenList = std::vector<std::pair<std::string, int32_t>>;

// Returns `added` and the configuration's tokens: tokens with ids, and special tokens, which take
// the next free id if no token has their spelling.
std::vector<AddedToken> CompleteAddedTokens(std::vector<AddedToken> added,
                                            const TokenizerConfig& config,
                                            const TokenList& tokens);

struct BytePairParts {
  TokenList tokens;
  std::vector<AddedToken> added;
  std::vector<std::pair<std::string, std::string>> merges;
  bool needs_all_bytes = false;  // set if there is an unknown token, which must never be used
  TextFrame frame;
};

// Both functions make a tokenizer. `file` is for messages. They throw Failure if a merge contains a
// string that is not a token, or if the unknown token, a needed byte, or a token around texts is
// not in the vocabulary.
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

// Divides "a b" into two words. Throws Failure if there are not two.
std::pair<std::string, std::string> SplitMerge(const std::filesystem::path& file,
                                               const std::string& line);

}  // namespace ddprun::trainer
