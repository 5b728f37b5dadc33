#include "trainer/config/json_document.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "trainer/config/diagnostic.h"

namespace ddprun::trainer {

namespace {

constexpr std::string_view kBlanks = " \t\r\n";
// Tokens of one character.
constexpr std::string_view kPunctuation = "{}[],:";

// Prepares a text for nlohmann's reader, and finds the places of its tokens, which the reader does
// not report. Comments and trailing commas, which the reader refuses, become blanks.
class Scanner {
 public:
  Scanner(std::string text, size_t offset) : text_(std::move(text)) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.compare(offset, kByteOrderMark.size(), kByteOrderMark) == 0)
      Blank(offset, offset + 3);
    for (size_t at = offset; at < text_.size() && !unclosed_comment_;) at = Take(at);
  }

  const std::string& text() const { return text_; }
  bool unclosed_comment() const { return unclosed_comment_; }

  // Returns the next token that is not a comma or colon.
  std::pair<size_t, size_t> Next() { return tokens_.at(next_++); }
  // Returns where the last token before `end` begins.
  size_t BeginBefore(size_t end) const {
    const auto after =
        std::ranges::lower_bound(tokens_, end, {}, &std::pair<size_t, size_t>::first);
    return after == tokens_.begin() ? 0 : std::prev(after)->first;
  }

 private:
  void Blank(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (text_[i] != '\n') text_[i] = ' ';
    }
  }

  // Returns the place after the token, blank or comment at `at`.
  size_t Take(size_t at) {
    const char first = text_[at];
    if (kBlanks.find(first) != kBlanks.npos) return at + 1;
    if (first == '/') {
      if (const size_t end = TakeComment(at); end != at) return end;
    }
    const size_t end = EndOf(at);
    const bool closes = first == '}' || first == ']';
    if (closes && comma_ != 0) Blank(comma_, comma_ + 1);
    // A comma that is not after a value is a mistake, and stays.
    const bool after_value = std::string_view("{[,:").find(last_) == std::string_view::npos;
    comma_ = first == ',' && after_value ? at : 0;
    last_ = first;
    if (first != ',' && first != ':') tokens_.emplace_back(at, end);
    return end;
  }

  // Returns the place after the comment at `at`, or `at` if there is none.
  size_t TakeComment(size_t at) {
    const std::string_view two = std::string_view(text_).substr(at, 2);
    if (two != "//" && two != "/*") return at;
    size_t end = two == "//" ? text_.find('\n', at) : text_.find("*/", at + 2);
    unclosed_comment_ = two == "/*" && end == std::string::npos;
    end = std::min(end, text_.size());
    if (two == "/*" && !unclosed_comment_) end += 2;
    Blank(at, end);
    return end;
  }

  size_t EndOf(size_t at) const {
    if (kPunctuation.find(text_[at]) != kPunctuation.npos) return at + 1;
    const bool is_string = text_[at] == '"';
    size_t end = at + 1;
    for (; end < text_.size(); ++end) {
      const char letter = text_[end];
      if (is_string && letter == '"') return end + 1;
      if (is_string && letter == '\\') ++end;
      if (is_string) continue;
      if (letter == '"' || letter == '/' || kBlanks.find(letter) != kBlanks.npos ||
          kPunctuation.find(letter) != kPunctuation.npos) {
        break;
      }
    }
    return std::min(end, text_.size());
  }

  std::string text_;
  std::vector<std::pair<size_t, size_t>> tokens_;  // begin and end
  size_t next_ = 0;
  char last_ = ',';   // the first byte of the last token
  size_t comma_ = 0;  // the last token's place if it is a comma after a value, else 0
  bool unclosed_comment_ = false;
};

struct Mistake {
  size_t place = 0;
  std::string found;
  std::string hint = {};
};

// The kinds of mistakes, by a part of the text of nlohmann's reader.
struct Explanation {
  std::string_view says;
  std::string_view found;
  std::string_view hint;
};

constexpr std::string_view kComma = "A comma may be missing at the end of the value before.";
constexpr std::string_view kHexDigits = "Write four hexadecimal digits.";
constexpr Explanation kExplanations[] = {
    {"after backslash", "This backslash escape does not exist in JSON:",
     "Write a backslash itself as \\\\ (two backslashes)."},
    {"'\\u'", "This \\u escape is not a valid character:", kHexDigits},
    {"surrogate", "This \\u escape is not a valid character:", kHexDigits},
    {"UTF-8", "This is not UTF-8 text:", "Save the file as UTF-8."},
    {"control character", "A string cannot hold this control character:",
     "Write a tab as \\t, others as \\u and four hexadecimal digits."},
    {"after '.'", "A digit after the decimal point was expected here:", ""},
    {"after exponent", "A digit of the exponent was expected here:", ""},
    {"number overflow", "This number is too big:", "Numbers reach up to about 1.8e308."},
    {"expected end of input",
     "The JSON value ended before this:", "Remove what follows the closing bracket."},
    {"while parsing object key", "A key in double quotes was expected here:", ""},
    {"while parsing object separator", "A colon between key and value was expected here:", ""},
    {"while parsing object -", "A comma or a closing } was expected here:", kComma},
    {"while parsing array -", "A comma or a closing ] was expected here:", kComma},
    {"while parsing value", "This is no JSON value:",
     "Values are numbers, \"strings\", true, false, null, [lists] and {objects}."},
    {"", "The JSON text is broken here:", ""},
};

// `read` is the reader's place, after the byte that it refuses.
Mistake Explain(const Scanner& scanner, size_t read, std::string_view says) {
  const std::string& text = scanner.text();
  const auto row = std::ranges::find_if(kExplanations, [&](const Explanation& explanation) {
    return says.find(explanation.says) != says.npos;
  });
  Mistake mistake{read - 1, std::string(row->found), std::string(row->hint)};
  const char letter = text[mistake.place];
  const bool ends_token = (kPunctuation.find(letter) != kPunctuation.npos) || letter == '"' ||
                          kBlanks.find(letter) != kBlanks.npos;
  if (says.find("invalid string") != says.npos) {
    if (letter == '\n' || letter == '\r') {
      mistake.found = "This string has no closing quote on its line:";
      mistake.hint = "Write a line break inside a string as \\n.";
    } else if (row->found.find("escape") != row->found.npos) {
      mistake.place = text.rfind('\\', mistake.place - 1);
    }
  } else if (says.find("- invalid") != says.npos) {  // "tru}"
    mistake.place = scanner.BeginBefore(ends_token ? read - 1 : read);
  } else if (kPunctuation.find(letter) == kPunctuation.npos) {
    mistake.place = scanner.BeginBefore(read);
  }
  return mistake;
}

Mistake TextEnds(const Source& source) {
  return {source.text.size(),
          "The text ends here, in the middle of a value:", "Close every { [ and \"."};
}

// nlohmann's handler, which is called for each token in order.
class TreeBuilder {
 public:
  TreeBuilder(const Source& source, size_t offset, Scanner* scanner)
      : source_(source), offset_(offset), scanner_(*scanner) {}

  bool null() { return AddScalar(JsonValue::Kind::kNull, ""); }
  bool boolean(bool value) {
    Attach(JsonValue::Kind::kBool, TokenSpan())->boolean = value;
    return true;
  }
  // Numbers are read from the text later, exactly and by the key's type.
  bool number_integer(int64_t /*value*/) { return AddNumber(); }
  bool number_unsigned(uint64_t /*value*/) { return AddNumber(); }
  bool number_float(double /*value*/, const std::string& /*text*/) { return AddNumber(); }
  bool string(std::string& text) { return AddScalar(JsonValue::Kind::kString, std::move(text)); }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }  // JSON has none
  bool key(std::string& text) {
    open_.back()->members.push_back({std::move(text), TokenSpan(), JsonValue()});
    return true;
  }
  bool start_object(size_t /*count*/) { return Open(JsonValue::Kind::kObject); }
  bool start_array(size_t /*count*/) { return Open(JsonValue::Kind::kArray); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool parse_error(size_t read, const std::string& /*token*/, const std::exception& error) {
    read += offset_;
    if (read > source_.text.size()) {
      mistake_ = begun_ ? TextEnds(source_)
                        : Mistake{read - 1, "There is no JSON value here:",
                                  "The smallest config is {\"model\": {\"type\": ...}}."};
    } else {
      mistake_ = Explain(scanner_, read, error.what());
    }
    return false;
  }

  JsonValue TakeRoot() { return std::move(root_); }
  const Mistake& mistake() const { return mistake_; }

 private:
  Span TokenSpan() {
    begun_ = true;
    const auto [begin, end] = scanner_.Next();
    return {&source_, begin, end};
  }

  JsonValue* Attach(JsonValue::Kind kind, const Span& span) {
    JsonValue* value = &root_;
    if (!open_.empty()) {
      JsonValue& parent = *open_.back();
      const bool object = parent.kind == JsonValue::Kind::kObject;
      value = object ? &parent.members.back().value : &parent.elements.emplace_back();
    }
    value->kind = kind;
    value->span = span;
    return value;
  }

  bool AddScalar(JsonValue::Kind kind, std::string text) {
    Attach(kind, TokenSpan())->text = std::move(text);
    return true;
  }

  bool AddNumber() {
    const Span span = TokenSpan();
    Attach(JsonValue::Kind::kNumber, span)->text =
        source_.text.substr(span.begin, span.end - span.begin);
    return true;
  }

  bool Open(JsonValue::Kind kind) {
    const Span span = TokenSpan();
    if (open_.size() == kMaxJsonDepth) {
      mistake_ = {span.begin,
                  "Brackets are nested more than " + std::to_string(kMaxJsonDepth) + " deep here:",
                  "A config needs three levels."};
      return false;
    }
    open_.push_back(Attach(kind, span));
    return true;
  }

  bool Close() {
    open_.back()->span.end = TokenSpan().end;
    open_.pop_back();
    return true;
  }

  const Source& source_;
  const size_t offset_;
  Scanner& scanner_;
  bool begun_ = false;
  JsonValue root_;
  std::vector<JsonValue*> open_;  // the path from the root; only the innermost one grows
  Mistake mistake_;
};

Error BrokenJson(const Source& source, size_t offset, const Mistake& mistake) {
  size_t place = mistake.place;
  if (place >= source.text.size()) {
    // Shows the last text instead of blank lines at the end.
    const size_t last = source.text.find_last_not_of(kBlanks);
    place = std::max(last == std::string::npos ? 0 : last + 1, offset);
  }
  return ErrorAt({&source, place, place + 1}, {.title = "BROKEN JSON",
                                               .page = "broken-json",
                                               .found = mistake.found,
                                               .hint = mistake.hint});
}

}  // namespace

const char* KindName(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBool:
      return "true or false";
    case JsonValue::Kind::kNumber:
      return "a number";
    case JsonValue::Kind::kString:
      return "a string";
    case JsonValue::Kind::kArray:
      return "a list";
    case JsonValue::Kind::kObject:
      return "an object";
  }
  return "";
}

Result<JsonValue> ParseJson(const Source& source, size_t offset) {
  // nlohmann's reader would take a NUL byte for the end and ignore the rest.
  if (const size_t nul = source.text.find('\0', offset); nul != std::string::npos) {
    return BrokenJson(source, offset, {nul, "There is a NUL byte here; this is no text file:"});
  }
  Scanner scanner(source.text, offset);
  if (scanner.unclosed_comment()) return BrokenJson(source, offset, TextEnds(source));
  TreeBuilder builder(source, offset, &scanner);
  const std::string_view text = std::string_view(scanner.text()).substr(offset);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    return BrokenJson(source, offset, builder.mistake());
  }
  return builder.TakeRoot();
}

}  // namespace ddprun::trainer
