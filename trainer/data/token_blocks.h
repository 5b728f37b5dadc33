// The tokens of several files, one after the other, as samples of equal length.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "trainer/data/dataset.h"

namespace ddprun::trainer {

// Not thread-safe while files are added; any thread afterwards.
class TokenBlocks {
 public:
  // `sequence_length` T: sample i is the tokens [i*T, i*T + T + 1). `vocab_size` > 0: larger ids
  // are an error, because the model has no row for them.
  TokenBlocks(int64_t sequence_length, int64_t vocab_size)
      : sequence_length_(sequence_length), vocab_size_(vocab_size) {}

  // Adds the tokens of a file from byte `begin`, each little endian of `width` (1, 2 or 4) bytes.
  void Add(std::string path, MappedFile file, size_t begin, size_t width);

  int64_t tokens() const { return ends_.empty() ? 0 : ends_.back(); }
  int64_t size() const { return tokens() == 0 ? 0 : (tokens() - 1) / sequence_length_; }
  int64_t sequence_length() const { return sequence_length_; }

  // Returns int64 tensors [B, T] as inputs, and shifted by one as targets. Throws Failure if a file
  // has become shorter or an id is not below vocab_size.
  Batch Get(std::span<const int64_t> indices) const;

 private:
  struct Part {
    std::string path;
    MappedFile file;
    size_t begin;
    size_t width;
  };
  void Copy(int64_t begin, std::vector<int64_t>& to) const;
  void CopyFrom(const Part& part, int64_t first, std::span<int64_t> to) const;

  const int64_t sequence_length_;
  const int64_t vocab_size_;
  std::vector<Part> parts_;
  std::vector<int64_t> ends_;  // tokens up to the end of each part
};

}  // namespace ddprun::trainer
