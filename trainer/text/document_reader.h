// Reads files in pieces that can be tokenized separately. LibTorch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/text/file_stream.h"

namespace ddprun::trainer {

struct TextPiece {
  std::string text;
  size_t file = 0;             // index of its file
  int64_t first_line = 1;      // of the piece, in its file
  bool is_rows = false;        // true: JSON lines, each a document; false: (a part of) one
  bool ends_document = false;  // of plain text: the file ends here
};

struct TextRow {
  std::string_view text;  // of the piece
  int64_t line = 1;       // in its file
};
// Returns the lines of a piece of rows, without blank ones.
std::vector<TextRow> RowsOf(const TextPiece& piece);

struct DocumentReaderOptions {
  std::vector<std::string> files;
  std::vector<bool> is_rows;  // by file: JSON lines
  // true: plain text may be cut before a line break that follows an ASCII letter
  // (Tokenizer::splits_at_lines). false: a file is one piece.
  bool cut_text = true;
  size_t piece_bytes = 1 << 20;
};

// Reads files and never maps them, so that a file may change meanwhile without harm. Also reads
// files compressed by gzip, and rows from Parquet. Not thread-safe.
class DocumentReader {
 public:
  explicit DocumentReader(DocumentReaderOptions options) : options_(std::move(options)) {}

  // Reads the next piece. Returns false at the end. Empty files have no piece. Throws Failure if a
  // file cannot be read, or for a row, or a text that cannot be cut, of 2 GiB or more.
  bool Next(TextPiece& piece);

  // Returns the bytes read so far from the files, before decompression.
  int64_t bytes_read() const;

 private:
  bool OpenNext();
  bool ReadMore();
  size_t FindCut(size_t searched) const;

  const DocumentReaderOptions options_;
  size_t next_file_ = 0;
  std::optional<FileStream> stream_;
  std::string buffer_;  // read but not yet returned
  bool at_end_ = true;  // of the file
  int64_t line_ = 1;
  int64_t bytes_read_ = 0;  // of the files before this one
};

}  // namespace ddprun::trainer
