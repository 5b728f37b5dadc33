#include "trainer/data/text_dataset.h"

#include "base/check.h"
#include "base/failure.h"
#include "trainer/data/data_files.h"
#include "trainer/text/file_stream.h"

namespace ddprun::trainer {

namespace {

Failure TooLittleText(const TextDatasetOptions& options, size_t files, int64_t bytes) {
  const std::string found =
      "The " + std::to_string(files) + " data files (" + options.patterns.front() +
      (options.patterns.size() > 1 ? ", ..." : "") + ") have " + std::to_string(bytes) + " bytes";
  if (bytes == 0) {
    return Failure(Error{.code = Code::kUsage,
                         .title = "NO TEXT",
                         .where = "",
                         .what = found + ": there is nothing to train on.",
                         .hint = "Name files that have text in them.",
                         .page = "no-text"});
  }
  return Failure(Error{.code = Code::kUsage,
                       .title = "TEXT TOO SHORT",
                       .where = "",
                       .what = found + "; one sample needs " +
                               std::to_string(options.sequence_length + 1) +
                               " (data.max_seq_length + 1).",
                       .hint = "Add text, or make data.max_seq_length smaller.",
                       .page = "text-too-short"});
}

}  // namespace

TextDataset::TextDataset(const TextDatasetOptions& options) : blocks_(options.sequence_length, 0) {
  DDPRUN_CHECK(options.sequence_length > 0 && !options.patterns.empty());
  files_ = ExpandFiles(options.patterns);
  for (const std::string& file : files_) {
    Result<MappedFile> mapped = MappedFile::Open(file);
    if (!mapped) throw UnreadableFile(file, mapped.error().what);
    RefuseCompressed(file, mapped->bytes());
    blocks_.Add(file, *std::move(mapped), 0, 1);
  }
  if (bytes() <= options.sequence_length) throw TooLittleText(options, files_.size(), bytes());
}

}  // namespace ddprun::trainer
