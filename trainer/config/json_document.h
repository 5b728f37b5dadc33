// A JSON text as a tree that remembers where every key and value stands.
// Comments and trailing commas are allowed. Pure; safe from any thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "trainer/config/source.h"

namespace ddprun::trainer {

struct JsonMember;

struct JsonValue {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  Span span = {};  // of the whole value, quotes and brackets included
  bool boolean = false;
  std::string text = {};  // kString: decoded; kNumber: as written
  std::vector<JsonValue> elements;
  std::vector<JsonMember> members;  // in the file's order; duplicates are kept
};

struct JsonMember {
  std::string key;
  Span key_span;  // quotes included
  JsonValue value = {};
};

// "a string", "an object": what a message calls the value.
const char* KindName(JsonValue::Kind kind);

// Parses source.text from `offset` to its end. `source` must outlive the value, whose spans point
// to it. Errors (kUsage, "broken-json") carry line, column and caret. Nesting deeper than
// kMaxJsonDepth is refused, so that a hostile file cannot exhaust the stack.
constexpr int kMaxJsonDepth = 32;
Result<JsonValue> ParseJson(const Source& source, size_t offset = 0);

}  // namespace ddprun::trainer
