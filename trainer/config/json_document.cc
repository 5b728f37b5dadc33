#include "trainer/config/json_document.h"

#include <rapidjson/error/error.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "trainer/config/diagnostic.h"

namespace ddprun::trainer {

namespace {

// RapidJSON's input: Tell() is an offset into the whole source; the end reads as '\0'.
class SourceStream {
 public:
  using Ch = char;
  SourceStream(std::string_view text, size_t offset) : text_(text), offset_(offset) {}
  char Peek() const { return offset_ < text_.size() ? text_[offset_] : '\0'; }
  char Take() {
    const char character = Peek();
    if (offset_ < text_.size()) ++offset_;
    return character;
  }
  size_t Tell() const { return offset_; }
  // Writing is for in-situ parsing only, which is not used; the reader still names these.
  char* PutBegin() { return nullptr; }
  void Put(char /*character*/) {}
  size_t PutEnd(char* /*begin*/) { return 0; }

 private:
  std::string_view text_;
  size_t offset_;
};

// Where the next token begins: behind blanks, comments and the punctuation between tokens.
size_t TokenBegin(std::string_view text, size_t offset) {
  while (offset < text.size()) {
    if (text[offset] == '/') {
      const bool block = text.substr(offset, 2) == "/*";
      const size_t end = text.find(block ? "*/" : "\n", offset + (block ? 2 : 0));
      if (end == std::string_view::npos) return text.size();
      offset = end + (block ? 2 : 1);
    } else if (std::string_view(" \t\r\n,:]}").find(text[offset]) != std::string_view::npos) {
      ++offset;
    } else {
      return offset;
    }
  }
  return offset;
}

// RapidJSON's handler. A handler call comes right after its token was read, so that a token ends at
// Tell() and begins at the first byte that is no blank, comment or punctuation after the last one.
class TreeBuilder {
 public:
  TreeBuilder(const Source& source, size_t offset, const SourceStream& stream)
      : source_(source), stream_(stream), last_end_(offset) {}

  bool Null() { return AddScalar(JsonValue::Kind::kNull, ""); }
  bool Bool(bool value) {
    Attach({.kind = JsonValue::Kind::kBool, .span = TokenSpan(), .boolean = value});
    return true;
  }
  // The numeric value is read from the text later, exactly and with the key's type in mind.
  bool Int(int /*value*/) { return AddNumber(); }
  bool Uint(unsigned /*value*/) { return AddNumber(); }
  bool Int64(int64_t /*value*/) { return AddNumber(); }
  bool Uint64(uint64_t /*value*/) { return AddNumber(); }
  bool Double(double /*value*/) { return AddNumber(); }
  bool RawNumber(const char* /*text*/, rapidjson::SizeType /*size*/, bool /*copy*/) {
    return AddNumber();
  }
  bool String(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    return AddScalar(JsonValue::Kind::kString, std::string(text, size));
  }
  bool Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    open_.back()->members.push_back({.key = std::string(text, size), .key_span = TokenSpan()});
    return true;
  }
  bool StartObject() { return Open(JsonValue::Kind::kObject); }
  bool EndObject(rapidjson::SizeType /*count*/) { return Close('}'); }
  bool StartArray() { return Open(JsonValue::Kind::kArray); }
  bool EndArray(rapidjson::SizeType /*count*/) { return Close(']'); }

  JsonValue TakeRoot() { return std::move(root_); }

 private:
  Span TokenSpan() {
    const size_t begin = TokenBegin(source_.text, last_end_);
    last_end_ = stream_.Tell();
    return {&source_, begin, last_end_};
  }

  JsonValue* Attach(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    JsonValue& parent = *open_.back();
    if (parent.kind == JsonValue::Kind::kObject) {
      parent.members.back().value = std::move(value);
      return &parent.members.back().value;
    }
    parent.elements.push_back(std::move(value));
    return &parent.elements.back();
  }

  bool AddScalar(JsonValue::Kind kind, std::string text) {
    Attach({.kind = kind, .span = TokenSpan(), .text = std::move(text)});
    return true;
  }

  bool AddNumber() {
    const Span span = TokenSpan();
    Attach({.kind = JsonValue::Kind::kNumber,
            .span = span,
            .text = source_.text.substr(span.begin, span.end - span.begin)});
    return true;
  }

  // False stops the parse: kParseErrorTermination.
  bool Open(JsonValue::Kind kind) {
    if (open_.size() == kMaxJsonDepth) return false;
    open_.push_back(Attach({.kind = kind, .span = TokenSpan()}));
    return true;
  }

  bool Close(char bracket) {
    // After a trailing comma RapidJSON announces the end before it takes the bracket.
    const size_t offset = stream_.Tell();
    last_end_ = source_.text[offset - 1] == bracket ? offset : offset + 1;
    open_.back()->span.end = last_end_;
    open_.pop_back();
    return true;
  }

  const Source& source_;
  const SourceStream& stream_;
  size_t last_end_;
  JsonValue root_;
  std::vector<JsonValue*> open_;  // the path from the root; only the innermost one grows
};

struct Explanation {
  std::string found;
  std::string hint;
};

Explanation Explain(rapidjson::ParseErrorCode code, const Source& source, size_t offset) {
  const bool at_end = offset >= source.text.size();
  const bool control = !at_end && static_cast<unsigned char>(source.text[offset]) < 0x20;
  if (at_end && code != rapidjson::kParseErrorDocumentEmpty) {
    return {"The text ends here, in the middle of a value:", "Close every { [ and \"."};
  }
  switch (code) {
    case rapidjson::kParseErrorDocumentEmpty:
      return {"There is no JSON value here:",
              "The smallest config is {\"model\": {\"type\": ...}}."};
    case rapidjson::kParseErrorDocumentRootNotSingular:
      return {"The JSON value ended before this:", "Remove what follows the closing bracket."};
    case rapidjson::kParseErrorObjectMissName:
      return {"A key in double quotes was expected here:", ""};
    case rapidjson::kParseErrorObjectMissColon:
      return {"A colon between key and value was expected here:", ""};
    case rapidjson::kParseErrorObjectMissCommaOrCurlyBracket:
      return {"A comma or a closing } was expected here:",
              "A comma may be missing at the end of the value before."};
    case rapidjson::kParseErrorArrayMissCommaOrSquareBracket:
      return {"A comma or a closing ] was expected here:",
              "A comma may be missing at the end of the value before."};
    case rapidjson::kParseErrorValueInvalid:
      return {"This is no JSON value:",
              "Values are numbers, \"strings\", true, false, null, [lists] and {objects}."};
    case rapidjson::kParseErrorStringEscapeInvalid:
      if (control && (source.text[offset] == '\n' || source.text[offset] == '\r')) {
        return {"This string has no closing quote on its line:",
                "Write a line break inside a string as \\n."};
      }
      if (control) {
        return {"A string cannot hold this control character:",
                "Write a tab as \\t, others as \\u and four hexadecimal digits."};
      }
      return {"This backslash escape does not exist in JSON:",
              "Write a backslash itself as \\\\ (two backslashes)."};
    case rapidjson::kParseErrorStringUnicodeEscapeInvalidHex:
    case rapidjson::kParseErrorStringUnicodeSurrogateInvalid:
      return {"This \\u escape is not a valid character:", "Write four hexadecimal digits."};
    case rapidjson::kParseErrorStringInvalidEncoding:
      return {"This is not UTF-8 text:", "Save the file as UTF-8."};
    case rapidjson::kParseErrorNumberTooBig:
      return {"This number is too big:", "Numbers reach up to about 1.8e308."};
    case rapidjson::kParseErrorNumberMissFraction:
      return {"A digit after the decimal point was expected here:", ""};
    case rapidjson::kParseErrorNumberMissExponent:
      return {"A digit of the exponent was expected here:", ""};
    case rapidjson::kParseErrorTermination:
      return {"Brackets are nested more than " + std::to_string(kMaxJsonDepth) + " deep here:",
              "A config needs three levels."};
    default:
      return {"The JSON text is broken here:", ""};
  }
}

Error BrokenJson(const Source& source, size_t offset, const Explanation& explanation) {
  return ErrorAt({&source, offset, offset + 1}, {.title = "BROKEN JSON",
                                                 .page = "broken-json",
                                                 .found = explanation.found,
                                                 .hint = explanation.hint});
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
  // RapidJSON takes a NUL byte for the end of the text and would ignore what follows it.
  if (const size_t nul = source.text.find('\0', offset); nul != std::string::npos) {
    return BrokenJson(source, nul, {"There is a NUL byte here; this is no text file:", ""});
  }
  SourceStream stream(source.text, offset);
  TreeBuilder builder(source, offset, stream);
  rapidjson::Reader reader;
  constexpr unsigned kFlags = rapidjson::kParseCommentsFlag | rapidjson::kParseTrailingCommasFlag |
                              rapidjson::kParseValidateEncodingFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
  if (result.IsError()) {
    const Explanation explanation = Explain(result.Code(), source, result.Offset());
    size_t place = result.Offset();
    if (place >= source.text.size()) {
      // Blank lines at the end have nothing to show.
      const size_t last = source.text.find_last_not_of(" \t\r\n");
      place = std::max(last == std::string::npos ? 0 : last + 1, offset);
    }
    return BrokenJson(source, place, explanation);
  }
  return builder.TakeRoot();
}

}  // namespace ddprun::trainer
