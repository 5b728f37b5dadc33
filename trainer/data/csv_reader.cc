#include "trainer/data/csv_reader.h"

#include <algorithm>

namespace ddprun::trainer {

CsvReader::CsvReader(std::string_view text, char delimiter) : rest_(text), delimiter_(delimiter) {
  if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);
}

bool CsvReader::Next(std::vector<std::string>& fields) {
  while (rest_.starts_with('\n') || rest_.starts_with("\r\n")) {
    rest_.remove_prefix(rest_.front() == '\r' ? 2 : 1);
    ++next_line_;
  }
  if (rest_.empty()) return false;
  line_ = next_line_;
  problem_.clear();
  fields.clear();
  while (true) {
    std::string& field = fields.emplace_back();
    if (rest_.starts_with('"')) {
      ReadQuoted(field);
    } else {
      ReadPlain(field);
    }
    if (!rest_.starts_with(delimiter_)) break;
    rest_.remove_prefix(1);
  }
  if (rest_.starts_with("\r\n")) rest_.remove_prefix(1);
  if (!rest_.empty()) rest_.remove_prefix(1);  // the line break
  ++next_line_;
  return true;
}

void CsvReader::ReadQuoted(std::string& field) {
  rest_.remove_prefix(1);
  while (true) {
    const size_t quote = rest_.find('"');
    const std::string_view part = rest_.substr(0, quote);
    next_line_ += std::count(part.begin(), part.end(), '\n');
    field.append(part);
    if (quote == rest_.npos) {
      problem_ = "A quoted field does not end before the end of the file.";
      rest_ = {};
      return;
    }
    rest_.remove_prefix(quote + 1);
    if (!rest_.starts_with('"')) break;
    field += '"';
    rest_.remove_prefix(1);
  }
  const bool ends = rest_.empty() || rest_.front() == delimiter_ || rest_.front() == '\n' ||
                    rest_.starts_with("\r\n");
  if (ends) return;
  problem_ = "A field has more text after its closing quote.";
  ReadPlain(field);
}

void CsvReader::ReadPlain(std::string& field) {
  // find_first_of() would call memchr() for each character.
  size_t end = 0;
  bool has_quote = false;
  for (; end < rest_.size() && rest_[end] != delimiter_ && rest_[end] != '\n'; ++end) {
    has_quote = has_quote || rest_[end] == '"';
  }
  std::string_view part = rest_.substr(0, end);
  // The CR of CR LF belongs to the line break.
  if (end < rest_.size() && rest_[end] == '\n' && part.ends_with('\r')) part.remove_suffix(1);
  if (has_quote && problem_.empty()) {
    problem_ = "A quote stands in a field that does not begin with one.";
  }
  field.append(part);
  rest_.remove_prefix(end);
}

}  // namespace ddprun::trainer
