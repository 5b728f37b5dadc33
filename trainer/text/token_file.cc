#include "trainer/text/token_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/failure.h"

namespace ddprun::trainer {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int64_t kNarrowIds = 1 << 16;
constexpr int64_t kMaxCount = std::numeric_limits<int32_t>::max();

Failure Unwritable(const std::string& path, const std::string& doing, int error_number) {
  return Failure(Error{.title = "TOKEN FILE NOT WRITTEN",
                       .where = path,
                       .what = doing + " failed: " + ErrnoText(error_number) + ".",
                       .hint = "Check the folder, its permissions and the free space.",
                       .page = "token-file-not-written"});
}

}  // namespace

TokenFileWriter::TokenFileWriter(std::string path, TokenFileFormat format, int64_t vocab_size)
    : path_(std::move(path)),
      temporary_(path_ + "." + std::to_string(::getpid()) + ".tmp"),
      format_(format),
      wide_(vocab_size > kNarrowIds) {
  if (wide_ && format_ == TokenFileFormat::kNanoGpt) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "FORMAT TOO NARROW",
                        .where = path_,
                        .what = "The tokenizer has " + std::to_string(vocab_size) +
                                " ids; nanoGPT's format holds 65536 (16 bits).",
                        .hint = "Use --format=llm.c, which then writes 32 bits.",
                        .page = "format-too-narrow"});
  }
  fd_ = UniqueFd(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd_.valid()) throw Unwritable(temporary_, "Creating it", errno);
  if (format_ == TokenFileFormat::kLlmC) WriteHeader();
}

TokenFileWriter::~TokenFileWriter() {
  if (!finished_) ::unlink(temporary_.c_str());
}

void TokenFileWriter::WriteHeader() {
  std::array<int32_t, 256> header{};
  header[0] = wide_ ? 20240801 : 20240520;
  header[1] = wide_ ? 7 : 1;
  header[2] = static_cast<int32_t>(tokens_);
  Write(header.data(), sizeof(header));
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
    Write(ids.data(), ids.size_bytes());
    return;
  }
  narrow_.assign(ids.begin(), ids.end());
  Write(narrow_.data(), narrow_.size() * sizeof(uint16_t));
}

void TokenFileWriter::Write(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(fd_.get(), at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw Unwritable(temporary_, "Writing to it", errno);
    at += written;
    bytes -= static_cast<size_t>(written);
  }
}

void TokenFileWriter::Finish() {
  if (format_ == TokenFileFormat::kLlmC) {
    if (::lseek(fd_.get(), 0, SEEK_SET) != 0) throw Unwritable(temporary_, "Seeking", errno);
    WriteHeader();
  }
  if (::fsync(fd_.get()) != 0) throw Unwritable(temporary_, "Syncing it", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw Unwritable(path_, "Renaming \"" + temporary_ + "\" to it", errno);
  }
  finished_ = true;
  // The name itself is safe only once the folder is.
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  const UniqueFd directory(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || ::fsync(directory.get()) != 0) {
    throw Unwritable(path_, "Syncing its folder", errno);
  }
}

}  // namespace ddprun::trainer
