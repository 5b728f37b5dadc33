// A JSON text as a tree, with the places of all keys and values.
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
  Span span = {};  // of the whole value, with quotes and brackets
  bool boolean = false;
  std::string text = {};  // kString: decoded; kNumber: as written
  std::vector<JsonValue> elements;
  std::vector<JsonMember> members;  // in the file's order, with duplicates
};

struct JsonMember {
  std::string key;
  Span key_span;  // with quotes
  JsonValue value = {};
};

// Returns the kind's name for messages: "a string", "an object".
const char* KindName(JsonValue::Kind kind);

// Parses source.text from `offset` to its end. `source` must outlive the value, whose spans point
// to it. Errors (kUsage, "broken-json") show the place. Deeper nesting than kMaxJsonDepth is an
// error, so that a hostile file cannot exhaust the stack.
constexpr int kMaxJsonDepth = 32;
Result<JsonValue> ParseJson(const Source& source, size_t offset = 0);

}  // namespace ddprun::trainer
