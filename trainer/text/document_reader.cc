#include "trainer/text/document_reader.h"

#include <algorithm>

#include "trainer/text/utf8.h"

namespace ddprun::trainer {

namespace {

constexpr size_t kMaxPiece = (size_t{1} << 31) - 1;

Failure Unreadable(const std::string& path,
                   const std::string& reason,
                   const std::string& hint = "") {
  return UnreadableFile(path, reason, hint, Code::kUsage);
}

bool IsAsciiLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

std::vector<TextRow> RowsOf(const TextPiece& piece) {
  std::vector<TextRow> rows;
  std::string_view rest = piece.text;
  for (int64_t line = piece.first_line; !rest.empty(); ++line) {
    const std::string_view row = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(row.size() + 1, rest.size()));
    if (row.find_first_not_of(" \t\r") != row.npos) rows.push_back({row, line});
  }
  return rows;
}

bool DocumentReader::OpenNext() {
  if (next_file_ == options_.files.size()) return false;
  const std::string& path = options_.files[next_file_++];
  bytes_read_ = bytes_read();
  const bool is_rows = options_.is_rows[next_file_ - 1];
  Result<FileStream> stream = FileStream::Open(path, is_rows ? "jsonl" : "");
  if (!stream) throw Unreadable(path, stream.error().what, stream.error().hint);
  stream_ = *std::move(stream);
  at_end_ = false;
  line_ = 1;
  return true;
}

// Appends up to piece_bytes bytes to the buffer. Returns false at the end of the file.
bool DocumentReader::ReadMore() {
  const size_t had = buffer_.size();
  const std::string& path = options_.files[next_file_ - 1];
  if (had + options_.piece_bytes > kMaxPiece) {
    throw Unreadable(path, "a row, or a text without places to cut it, is larger than 2 GiB");
  }
  buffer_.resize(had + options_.piece_bytes);
  const Result<size_t> count = stream_->Read(buffer_.data() + had, options_.piece_bytes);
  if (!count) throw Unreadable(path, count.error().what, count.error().hint);
  buffer_.resize(had + *count);
  if (*count == 0) at_end_ = true;
  if (had == 0 && line_ == 1 && IsUtf16(buffer_)) throw Utf16File(path);
  return *count > 0;
}

// Returns the bytes of the buffer that are a piece; 0 means that it cannot be cut yet. The first
// `searched` bytes contain no place to cut.
size_t DocumentReader::FindCut(size_t searched) const {
  const bool is_rows = options_.is_rows[next_file_ - 1];
  if (!is_rows && !options_.cut_text) return 0;
  for (size_t at = buffer_.size(); at > std::max<size_t>(searched, 1); --at) {
    if (buffer_[at - 1] != '\n') continue;
    if (is_rows) return at;
    if (at > 1 && IsAsciiLetter(buffer_[at - 2])) return at - 1;
  }
  return 0;
}

int64_t DocumentReader::bytes_read() const {
  return bytes_read_ + (stream_ ? stream_->file_bytes_read() : 0);
}

bool DocumentReader::Next(TextPiece& piece) {
  size_t cut = 0;
  while (cut == 0) {
    if (at_end_ && !OpenNext()) return false;
    for (size_t had = buffer_.size(); cut == 0 && ReadMore(); had = buffer_.size()) {
      cut = FindCut(had);
    }
    if (at_end_) cut = buffer_.size();
  }
  piece.file = next_file_ - 1;
  piece.is_rows = options_.is_rows[piece.file];
  piece.first_line = line_;
  piece.ends_document = at_end_ && !piece.is_rows;
  piece.text.assign(buffer_, 0, cut);
  buffer_.erase(0, cut);
  line_ += std::count(piece.text.begin(), piece.text.end(), '\n');
  return true;
}

}  // namespace ddprun::trainer
