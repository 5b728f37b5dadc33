// Converts text to token ids and back, like Hugging Face's tokenizers. LibTorch-free.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::trainer {

// The ids of tokens with a role; -1: the tokenizer has no such token.
struct SpecialIds {
  int32_t unknown = -1;  // a word that other tokens cannot form
  int32_t cls = -1;      // begins a text to classify
  int32_t sep = -1;      // ends each text of a pair
  int32_t pad = -1;      // pads short rows of a batch
  int32_t bos = -1;      // begins a document
  int32_t eos = -1;      // ends a document
  // The tokens that byte-level BPE puts around a single text, such as a prompt. Data sets do not
  // use them, because they know where a document begins and ends.
  std::vector<int32_t> before = {};
  std::vector<int32_t> after = {};
};

// Immutable after construction: any thread may call any method.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `utf8`. Adds no special tokens, but finds those that the text contains.
  // Bytes that are not UTF-8 count as U+FFFD, one for each maximal part of a character, like
  // Python's errors="replace". The length must be below 2 GiB.
  virtual void Encode(std::string_view utf8, std::vector<int32_t>& ids) const = 0;

  // Returns the text of `ids` without special tokens. Leaves out ids that do not exist.
  virtual std::string Decode(std::span<const int32_t> ids) const = 0;

  // Returns the largest id + 1, which is the number of rows of an embedding.
  virtual int64_t vocab_size() const = 0;

  virtual const SpecialIds& special() const = 0;

  // Returns the id of a token as the vocabulary spells it ("[SEP]", "<|endoftext|>"), or -1.
  virtual int32_t Find(std::string_view token) const = 0;

  // Returns whether a text may be encoded in parts that begin with a line break after an ASCII
  // letter: all parts' ids together are then those of the whole text.
  virtual bool splits_at_lines() const = 0;
};

// Loads tokenizers from folders in the form of Hugging Face's save_pretrained. LibTorch-free.

// Loads a tokenizer. `folder` is a folder, or one of its files named here. The first existing file
// counts: tokenizer.json (WordPiece or byte-level BPE), vocab.txt (WordPiece), vocab.json with
// merges.txt (byte-level BPE of GPT-2). Settings in tokenizer_config.json, special_tokens_map.json
// and added_tokens.json count as in `transformers`.
//
// Throws Failure if there is no such file, if a file is broken, or if it needs an unsupported
// feature, which the message names. So text is tokenized as in the model's training.
std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& folder);

// Returns whether the folder has a file with which LoadTokenizer() begins. LoadTokenizer() may
// still refuse it.
bool HasTokenizer(const std::string& folder);

}  // namespace ddprun::trainer
