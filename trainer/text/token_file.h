// Writes token files (.bin) for nanoGPT and llm.c. LibTorch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"

namespace ddprun::trainer {

enum class TokenFileFormat {
  kNanoGpt,  // uint16 ids and nothing else
  // 256 int32, then the ids. The first three int32 are 20240520, 1, count with uint16 ids; or
  // 20240801, 7, count with uint32 ids, if the vocabulary has more than 65536.
  kLlmC,
  // Any number of ids and nothing else: 16 bits each, or 32 bits if the vocabulary has more than
  // 65536. The reader must know which.
  kBare,
};

// Writes ids to a file beside `path` and renames it to `path` in Finish(). Until then, or without
// Finish(), an earlier file does not change. Little endian, like both programs. Not thread-safe.
class TokenFileWriter {
 public:
  // Throws Failure if nanoGPT's format cannot hold the vocabulary, or the file cannot be made.
  TokenFileWriter(std::string path, TokenFileFormat format, int64_t vocab_size);
  // Writes into `fd`, an empty file, instead of a file named `path`. Messages mention `path`.
  TokenFileWriter(int fd, std::string path, TokenFileFormat format, int64_t vocab_size);

  // Appends ids. REQUIRES: every id is in [0, vocab_size). Throws Failure if the disk is full, or
  // for more ids than llm.c's header can count (2^31 - 1).
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
  const int fd_ = -1;  // -1: writes into file_
  std::optional<AtomicFile> file_;
  std::vector<uint16_t> narrow_;  // Append()'s copy
  int64_t tokens_ = 0;
};

}  // namespace ddprun::trainer
