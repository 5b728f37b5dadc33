#include "trainer/text/token_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/failure.h"

namespace ddprun::trainer {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int64_t kNarrowIds = 1 << 16;
constexpr int64_t kMaxCount = std::numeric_limits<int32_t>::max();

std::string_view BytesOf(const void* data, size_t bytes) {
  return {static_cast<const char*>(data), bytes};
}

}  // namespace

TokenFileWriter::TokenFileWriter(std::string path, TokenFileFormat format, int64_t vocab_size)
    : path_(std::move(path)), format_(format), wide_(vocab_size > kNarrowIds) {
  Begin(vocab_size);
}

TokenFileWriter::TokenFileWriter(int fd,
                                 std::string path,
                                 TokenFileFormat format,
                                 int64_t vocab_size)
    : path_(std::move(path)), format_(format), wide_(vocab_size > kNarrowIds), fd_(fd) {
  Begin(vocab_size);
}

void TokenFileWriter::Begin(int64_t vocab_size) {
  if (wide_ && format_ == TokenFileFormat::kNanoGpt) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "FORMAT TOO NARROW",
                        .where = path_,
                        .what = "The tokenizer has " + std::to_string(vocab_size) +
                                " ids; nanoGPT's format holds 65536 (16 bits).",
                        .hint = "Use --format=llm.c, which then writes 32 bits.",
                        .page = "format-too-narrow"});
  }
  if (fd_ < 0) file_.emplace(ValueOrThrow(AtomicFile::Create(path_)));
  if (format_ == TokenFileFormat::kLlmC) Write(Header());
}

void TokenFileWriter::Write(std::string_view bytes) {
  ThrowIfError(file_ ? file_->Write(bytes) : WriteAll(fd_, bytes, path_));
}

std::string TokenFileWriter::Header() const {
  std::array<int32_t, 256> header{};
  header[0] = wide_ ? 20240801 : 20240520;
  header[1] = wide_ ? 7 : 1;
  header[2] = static_cast<int32_t>(tokens_);
  return std::string(BytesOf(header.data(), sizeof(header)));
}

void TokenFileWriter::Append(std::span<const int32_t> ids) {
  tokens_ += static_cast<int64_t>(ids.size());
  if (format_ == TokenFileFormat::kLlmC && tokens_ > kMaxCount) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "TOO MANY TOKENS FOR ONE FILE",
                        .where = path_,
                        .what = "The header of llm.c's format counts up to 2147483647 tokens.",
                        .hint = "Tokenize the files in several runs, each into a file of its own.",
                        .page = "too-many-tokens"});
  }
  if (wide_) {
    return Write(BytesOf(ids.data(), ids.size_bytes()));
  }
  narrow_.assign(ids.begin(), ids.end());
  Write(BytesOf(narrow_.data(), narrow_.size() * sizeof(uint16_t)));
}

void TokenFileWriter::Finish() {
  const bool has_header = format_ == TokenFileFormat::kLlmC;
  if (file_) {
    if (has_header) ThrowIfError(file_->RewriteBeginning(Header()));
    return ThrowIfError(file_->Finish());
  }
  if (!has_header) return;
  if (::lseek(fd_, 0, SEEK_SET) != 0) throw Failure(CannotWrite(path_, errno));
  Write(Header());
}

}  // namespace ddprun::trainer
