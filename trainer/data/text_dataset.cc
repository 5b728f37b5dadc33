#include "trainer/data/text_dataset.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/failure.h"
#include "trainer/data/data_files.h"

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

TextDataset::TextDataset(const TextDatasetOptions& options)
    : sequence_length_(options.sequence_length) {
  DDPRUN_CHECK(sequence_length_ > 0 && !options.patterns.empty());
  files_ = ExpandFiles(options.patterns);
  for (const std::string& file : files_) {
    Result<MappedFile> mapped = MappedFile::Open(file);
    if (!mapped) throw UnreadableFile(file, mapped.error().what);
    if (mapped->bytes().empty()) continue;
    bytes_ += static_cast<int64_t>(mapped->bytes().size());
    ends_.push_back(bytes_);
    mappings_.push_back(*std::move(mapped));
  }
  if (bytes_ < sequence_length_ + 1) throw TooLittleText(options, files_.size(), bytes_);
  // The last target of the last sample must exist too.
  size_ = (bytes_ - 1) / sequence_length_;
}

TextDataset::~TextDataset() = default;

Batch TextDataset::Get(std::span<const int64_t> indices) const {
  const auto count = static_cast<int64_t>(indices.size());
  Batch batch{.inputs = at::empty({count, sequence_length_}, at::kLong),
              .targets = at::empty({count, sequence_length_}, at::kLong),
              .samples = count,
              .predictions = count * static_cast<int64_t>(sequence_length_)};
  auto* inputs = batch.inputs.mutable_data_ptr<int64_t>();
  auto* targets = batch.targets.mutable_data_ptr<int64_t>();
  std::vector<uint8_t> text(sequence_length_ + 1);
  for (const int64_t index : indices) {
    DDPRUN_CHECK(index >= 0 && index < size_);
    CopyBytes(index * sequence_length_, text);
    inputs = std::copy(text.begin(), text.end() - 1, inputs);
    targets = std::copy(text.begin() + 1, text.end(), targets);
  }
  return batch;
}

void TextDataset::CopyBytes(int64_t begin, std::span<uint8_t> to) const {
  size_t file = std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin();
  while (!to.empty()) {
    const std::span<const std::byte> bytes = mappings_[file].bytes();
    const int64_t file_begin = ends_[file] - static_cast<int64_t>(bytes.size());
    const auto part = bytes.subspan(begin - file_begin);
    const size_t count = std::min(part.size(), to.size());
    std::memcpy(to.data(), part.data(), count);
    to = to.subspan(count);
    begin += static_cast<int64_t>(count);
    ++file;
  }
}

}  // namespace ddprun::trainer
