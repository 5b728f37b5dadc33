// Plain text as bytes: sample i is the bytes [i*T, i*T + T + 1) of all files, one after the other.
// The first T are the inputs, the last T the targets (L = T tokens, one byte each).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/token_blocks.h"

namespace ddprun::trainer {

struct TextDatasetOptions {
  std::vector<std::string> files = {};
  int64_t sequence_length = 128;  // T, bytes
};

// The files are mapped, never read whole.
class TextDataset final : public Dataset {
 public:
  // Throws Failure if a file cannot be read, or if there is less text than one sequence.
  explicit TextDataset(const TextDatasetOptions& options);

  int64_t size() const override { return blocks_.size(); }
  // Returns int64 tensors [B, T]. Throws Failure if a file has become shorter.
  Batch Get(std::span<const int64_t> indices) const override { return blocks_.Get(indices); }
  DataShape shape() const override { return {.vocab_size = 256}; }
  int64_t tokens_per_sample() const override { return blocks_.sequence_length(); }

  int64_t bytes() const { return blocks_.tokens(); }
  std::vector<std::string> Files() const override { return files_; }
  std::vector<std::string> Notes() const override { return notes_; }

 private:
  void NoteUtf16(const std::string& file, std::span<const std::byte> bytes);

  const std::vector<std::string> files_;
  TokenBlocks blocks_;
  std::vector<std::string> notes_;
};

}  // namespace ddprun::trainer
