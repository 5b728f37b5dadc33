// Reads comma-separated values (RFC 4180). LibTorch-free.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::trainer {

// Reads the records of one text. A field may be in quotes: it may then contain the delimiter, line
// breaks and, doubled, quotes. Lines end in LF or CR LF; empty lines are skipped. Not thread-safe.
class CsvReader {
 public:
  // `text` must outlive the reader. A byte order mark at its beginning is skipped.
  CsvReader(std::string_view text, char delimiter);

  // Reads the next record into `fields`, valid until the next call. Returns false at the end.
  bool Next(std::vector<std::string>& fields);

  int64_t line() const { return line_; }  // the record's first line, from 1
  // Returns a sentence about an error in the record's quoting; "" means that there is none.
  const std::string& problem() const { return problem_; }

 private:
  void ReadQuoted(std::string& field);
  void ReadPlain(std::string& field);

  std::string_view rest_;
  const char delimiter_;
  int64_t line_ = 0;
  int64_t next_line_ = 1;
  std::string problem_;
};

}  // namespace ddprun::trainer
