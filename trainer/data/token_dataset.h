// Token files (.bin): bare uint16 ids, as nanoGPT writes them, or with the header of llm.c (magic
// 20240520, version 1, uint16; 20240801, version 7, uint32). The first bytes distinguish them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/token_blocks.h"

namespace ddprun::trainer {

struct TokenDatasetOptions {
  std::vector<std::string> files = {};
  int bytes_per_token = 0;              // of files of bare ids; 0: as each file says
  int64_t sequence_length = 128;        // T, tokens
  int64_t vocab_size = 0;               // > 0: ids must be below it
  std::vector<std::string> notes = {};  // returned by Notes()
};

// The files are mapped, never read whole, so that a shard costs no memory until it is used.
class TokenDataset final : public Dataset {
 public:
  // Throws Failure for no file, an odd size, a wrong header, or less than one sequence.
  explicit TokenDataset(const TokenDatasetOptions& options);

  int64_t size() const override { return blocks_.size(); }
  // Returns int64 tensors [B, T]. Throws Failure like TokenBlocks::Get().
  Batch Get(std::span<const int64_t> indices) const override { return blocks_.Get(indices); }
  DataShape shape() const override { return {.vocab_size = vocab_size_}; }
  int64_t tokens_per_sample() const override { return blocks_.sequence_length(); }
  std::vector<std::string> Notes() const override { return notes_; }
  std::vector<std::string> Files() const override { return files_; }
  int64_t tokens() const { return blocks_.tokens(); }

 private:
  const std::vector<std::string> files_;
  const int64_t vocab_size_;
  const std::vector<std::string> notes_;
  TokenBlocks blocks_;
};

}  // namespace ddprun::trainer
