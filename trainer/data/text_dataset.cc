#include "trainer/data/text_dataset.h"

#include <array>

#include "base/check.h"
#include "base/failure.h"
#include "base/text.h"
#include "trainer/data/data_files.h"
#include "trainer/text/file_stream.h"
#include "trainer/text/utf8.h"

namespace ddprun::trainer {

namespace {

Failure TooLittleText(const TextDatasetOptions& options, int64_t bytes) {
  const size_t files = options.files.size();
  const std::string& first = options.files.front();
  const std::string found =
      (files == 1 ? "\"" + first + "\" has "
                  : "The " + std::to_string(files) + " data files (" + first + ", ...) have ") +
      CountText(bytes, "byte");
  if (bytes == 0) {
    return Failure(Error{.code = Code::kUsage,
                         .title = "NO TEXT",
                         .what = found + ": there is nothing to train on.",
                         .hint = "Name files that have text in them.",
                         .page = "no-text"});
  }
  return Failure(Error{.code = Code::kUsage,
                       .title = "TEXT TOO SHORT",
                       .what = found + "; one sample needs " +
                               std::to_string(options.sequence_length + 1) +
                               " (data.max_seq_length + 1).",
                       .hint = "Add text, or make data.max_seq_length smaller.",
                       .page = "text-too-short"});
}

}  // namespace

TextDataset::TextDataset(const TextDatasetOptions& options)
    : files_(options.files), blocks_(options.sequence_length, 0) {
  DDPRUN_CHECK(options.sequence_length > 0 && !files_.empty());
  for (const std::string& file : files_) {
    Result<MappedFile> mapped = MappedFile::Open(file);
    if (!mapped) throw UnreadableFile(file, mapped.error().what);
    RefuseUnmappable(file, mapped->bytes());
    NoteUtf16(file, mapped->bytes());
    blocks_.Add(file, *std::move(mapped), 0, 1);
  }
  if (bytes() <= options.sequence_length) throw TooLittleText(options, bytes());
}

void TextDataset::NoteUtf16(const std::string& file, std::span<const std::byte> bytes) {
  std::array<char, 4> begin = {};
  if (!notes_.empty() || bytes.size() < begin.size() ||
      !CopyMapped(begin.data(), bytes.data(), begin.size()) ||
      !IsUtf16({begin.data(), begin.size()})) {
    return;
  }
  notes_.push_back(file + " looks like UTF-16, but ddprun expects UTF-8; convert it with " +
                   "iconv -f UTF-16 -t UTF-8");
}

}  // namespace ddprun::trainer
