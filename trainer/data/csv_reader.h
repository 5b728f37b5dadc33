// Comma-separated values as RFC 4180 has them. LibTorch-free.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::trainer {

// Records of one text. A field may stand in quotes: it may then hold the delimiter, line breaks
// and, doubled, quotes. Lines end in LF or CR LF; empty lines are passed over. Not thread-safe.
class CsvReader {
 public:
  // `text` must outlive the reader. A byte order mark at its beginning is passed over.
  CsvReader(std::string_view text, char delimiter);

  // The next record; false at the end. The fields are those of `fields` until the next call.
  bool Next(std::vector<std::string>& fields);

  int64_t line() const { return line_; }  // on which the record began, from 1
  // What is wrong with the record's quoting, as a sentence; empty: nothing.
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
