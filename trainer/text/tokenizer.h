// Text to token ids and back, as Hugging Face's tokenizers do it. LibTorch-free.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::trainer {

// Ids of the tokens that programs ask for; -1: the tokenizer has no such token.
struct SpecialIds {
  int32_t unknown = -1;  // a word that no other tokens make up
  int32_t cls = -1;      // begins a text to classify
  int32_t sep = -1;      // ends each text of a pair
  int32_t pad = -1;      // fills up short rows of a batch
  int32_t bos = -1;      // begins a document
  int32_t eos = -1;      // ends a document
  // What byte-level BPE puts around a text that stands alone, as a prompt does. Data sets know
  // themselves where a document begins and ends.
  std::vector<int32_t> before = {};
  std::vector<int32_t> after = {};
};

// Immutable after construction: every method may be called from any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `utf8`; no special token is added, but those spelt out in the text are
  // found. Bytes that are no UTF-8 count as U+FFFD, one for each maximal part of a character, as
  // Python's errors="replace" has it. Any length below 2 GiB.
  virtual void Encode(std::string_view utf8, std::vector<int32_t>& ids) const = 0;

  // The text of `ids` without special tokens; ids that do not exist are left out.
  virtual std::string Decode(std::span<const int32_t> ids) const = 0;

  // The largest id + 1: the rows that an embedding needs.
  virtual int64_t vocab_size() const = 0;

  virtual const SpecialIds& special() const = 0;

  // The id of a token as the vocabulary spells it ("[SEP]", "<|endoftext|>"), or -1.
  virtual int32_t Find(std::string_view token) const = 0;

  // Whether a text may be encoded in parts that begin with a line break right after an ASCII
  // letter: the ids of the parts, put together, are those of the whole.
  virtual bool splits_at_lines() const = 0;
};

// Tokenizers from folders as Hugging Face's save_pretrained writes them. LibTorch-free.

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
