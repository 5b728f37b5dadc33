// Plain text by bytes: sample i is the bytes [i*T, i*T + T + 1) of all files put together; the
// first T are the inputs, the last T the targets (L = T tokens, one byte each).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "trainer/data/dataset.h"

namespace ddprun::trainer {

struct TextDatasetOptions {
  // Shell patterns, or plain paths: * ? [...] within a name, ** for any number of folders.
  // Relative ones are taken from the working directory. The matches of each pattern are sorted by
  // name, so every rank and every run sees the same text; a file matched twice is read once.
  std::vector<std::string> patterns = {};
  int64_t sequence_length = 128;  // T, bytes
};

// The files are mapped, read-only, never read whole; they must not shrink while mapped.
class TextDataset final : public Dataset {
 public:
  // Throws Failure: no file matches a pattern, a file cannot be read or is a folder, there is no
  // text at all, or less than one sequence.
  explicit TextDataset(const TextDatasetOptions& options);
  ~TextDataset() override;

  int64_t size() const override { return size_; }
  // int64 tensors [B, T].
  Batch Get(std::span<const int64_t> indices) const override;
  DataShape shape() const override { return {.vocab_size = 256}; }
  int64_t tokens_per_sample() const override { return sequence_length_; }

  int64_t bytes() const { return bytes_; }
  const std::vector<std::string>& files() const { return files_; }

 private:
  void CopyBytes(int64_t begin, std::span<uint8_t> to) const;

  const int64_t sequence_length_;
  std::vector<std::string> files_;
  std::vector<MappedFile> mappings_;  // of the files that are not empty
  std::vector<int64_t> ends_;         // where each mapping ends in the whole text
  int64_t bytes_ = 0;
  int64_t size_ = 0;
};

}  // namespace ddprun::trainer
