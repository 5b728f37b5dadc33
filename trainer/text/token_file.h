// Token files (.bin) as nanoGPT and llm.c read them. LibTorch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/whole_file.h"

namespace ddprun::trainer {

enum class TokenFileFormat {
  kNanoGpt,  // uint16 ids and nothing else
  // 256 int32, then the ids. The first three are 20240520, 1, count with uint16 ids, or 20240801,
  // 7, count with uint32 ids, where the vocabulary has more than 65536.
  kLlmC,
  // Ids and nothing else, of 16 bits or, where the vocabulary has more than 65536, of 32: for who
  // remembers which. Any number of them.
  kBare,
};

// Writes ids one after the other beside `path`, and gives the file that name in Finish(): what
// stood there before is whole until then, and without it. Not thread-safe. Little endian, as both
// programs are.
class TokenFileWriter {
 public:
  // Throws Failure: nanoGPT's format cannot hold the vocabulary, or the file cannot be made.
  TokenFileWriter(std::string path, TokenFileFormat format, int64_t vocab_size);
  // Into `fd`, an empty file, in place of one of that name; messages speak of `path`.
  TokenFileWriter(int fd, std::string path, TokenFileFormat format, int64_t vocab_size);

  // REQUIRES: every id is in [0, vocab_size). Throws Failure: the disk is full; more ids than the
  // header of llm.c can count (2^31 - 1).
  void Append(std::span<const int32_t> ids);
  // Throws Failure.
  void Finish();

  int64_t tokens() const { return tokens_; }
  int bytes_per_token() const { return wide_ ? 4 : 2; }

 private:
  void Begin(int64_t vocab_size);
  void Write(std::string_view bytes);
  std::string Header() const;

  const std::string path_;
  const TokenFileFormat format_;
  const bool wide_;
  const int fd_ = -1;  // or else
  std::optional<WholeFile> file_;
  std::vector<uint16_t> narrow_;  // Append's copy
  int64_t tokens_ = 0;
};

}  // namespace ddprun::trainer
