#include "trainer/config/assign_value.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "trainer/config/diagnostic.h"
#include "trainer/config/foreign_names.h"
#include "trainer/config/value_types.h"

namespace ddprun::trainer {

namespace {

using Kind = JsonValue::Kind;

std::string Accepted(const Key& key) {
  return "Accepted: " + AcceptedText(key) + UnitAndDefault(key) + ".";
}

Error WrongType(const Key& key,
                const JsonValue& value,
                const std::string& is_what,
                std::string hint = "") {
  if (hint.empty() && value.kind == Kind::kString && !value.text.empty()) {
    double number = 0;
    const char* end = value.text.data() + value.text.size();
    const auto parsed = std::from_chars(value.text.data(), end, number);
    const bool is_bool = value.text == "true" || value.text == "false";
    // "nan" and "inf" are no numbers in JSON, with or without quotes.
    const bool is_number = parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(number);
    if (is_number || is_bool) hint = "Remove the quotes.";
  }
  return ErrorAt(value.span, {.title = "WRONG TYPE",
                              .page = "wrong-type",
                              .found = key.Path() + " is " + is_what + " here:",
                              .expected = Accepted(key),
                              .hint = hint});
}

Error WrongType(const Key& key, const JsonValue& value) {
  return WrongType(key, value, KindName(value.kind));
}

Error OutOfRange(const Key& key, const JsonValue& value) {
  return ErrorAt(value.span, {.title = "OUT OF RANGE",
                              .page = "out-of-range",
                              .found = key.Path() + " cannot be " + Printable(value.text, 40) + ":",
                              .expected = Accepted(key)});
}

bool InRange(const Range& range, double number) {
  const bool low = range.min_excluded ? number > range.min : number >= range.min;
  const bool high = range.max_excluded ? number < range.max : number <= range.max;
  return low && high;
}

std::optional<double> ParseDouble(const std::string& text) {
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || !std::isfinite(number)) return std::nullopt;
  return number;
}

// Also accepts 1e6 and 10.0, because users write steps like this.
Status ReadInteger(const Key& key, const JsonValue& value, int64_t* field) {
  if (value.kind != Kind::kNumber) return WrongType(key, value);
  std::optional<int64_t> integer = ParseInt(value.text);
  if (!integer) {
    const std::optional<double> number = ParseDouble(value.text);
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (!number || std::abs(*number) > kExact) return OutOfRange(key, value);
    if (std::trunc(*number) != *number) return WrongType(key, value, "a number with a fraction");
    integer = static_cast<int64_t>(*number);
  }
  if (!InRange(key.range, static_cast<double>(*integer))) return OutOfRange(key, value);
  *field = *integer;
  return {};
}

Status ReadNumber(const Key& key, const JsonValue& value, double* field) {
  if (value.kind != Kind::kNumber) return WrongType(key, value);
  const std::optional<double> number = ParseDouble(value.text);
  if (!number || !InRange(key.range, *number)) return OutOfRange(key, value);
  *field = *number;
  return {};
}

Status ReadString(const Key& key,
                  const JsonValue& value,
                  const ReadContext& context,
                  std::string* field) {
  const bool override = value.span.source->kind == Source::Kind::kOverride;
  if (value.kind != Kind::kString) return WrongType(key, value);
  DDPRUN_ASSIGN(std::string text, Substitute(value.text, value.span, context.environment));
  if (text.find('\0') != std::string::npos) return WrongType(key, value, "a string with \\u0000");
  if (key.input_path && !text.empty()) {
    const std::filesystem::path folder = override ? context.working_folder : context.config_folder;
    text = (folder / text).lexically_normal().string();
  }
  *field = std::move(text);
  return {};
}

Status ReadChoice(const Key& key,
                  const JsonValue& value,
                  const ReadContext& context,
                  const ChoiceSlot& slot) {
  if (value.kind != Kind::kString) {
    // Other tools use numbers and switches for what is a word here.
    const std::string text =
        value.kind == Kind::kBool ? (value.boolean ? "true" : "false") : value.text;
    return WrongType(key, value, KindName(value.kind),
                     ForeignValueHint(key.Path(), text).value_or(""));
  }
  DDPRUN_ASSIGN(const std::string word, Substitute(value.text, value.span, context.environment));
  for (size_t i = 0; i < slot.words.size(); ++i) {
    if (slot.words[i] != word) continue;
    slot.set(slot.field, i);
    return {};
  }
  return ErrorAt(value.span, {.title = "UNKNOWN CHOICE",
                              .page = "unknown-choice",
                              .found = key.Path() + " cannot be \"" + Printable(word, 40) + "\":",
                              .expected = Accepted(key),
                              .hint = ChoiceHint(key.Path(), word, slot.words)});
}

bool Fits(const Interval& interval, CountedIn counted) {
  const bool is_time = interval.unit == IntervalUnit::kSeconds;
  return counted == CountedIn::kAnything || is_time == (counted == CountedIn::kTime);
}

Status ReadInterval(const Key& key,
                    const JsonValue& value,
                    const ReadContext& context,
                    Interval* field) {
  if (value.kind == Kind::kNumber) {
    int64_t steps = 0;
    DDPRUN_TRY(ReadInteger(key, value, &steps));
    const bool fits = steps == 0 || Fits({.unit = IntervalUnit::kSteps}, key.counted);
    if (!fits) return WrongType(key, value, "a number without a unit");
    *field = {.amount = static_cast<double>(steps)};
    return {};
  }
  const std::string word = value.kind == Kind::kBool && !value.boolean ? "false" : value.text;
  DDPRUN_ASSIGN(const std::string text, Substitute(word, value.span, context.environment));
  const std::optional<Interval> parsed = ParseInterval(text);
  if (value.kind != Kind::kString || !parsed || !Fits(*parsed, key.counted)) {
    const bool shown = value.kind == Kind::kString;
    return WrongType(key, value, shown ? "\"" + Printable(text, 40) + "\"" : KindName(value.kind),
                     ForeignValueHint(key.Path(), text).value_or(""));
  }
  *field = *parsed;
  return {};
}

Result<nlohmann::json> ToJson(const Key& key, const JsonValue& value, const ReadContext& context);

Result<nlohmann::json> ObjectToJson(const Key& key,
                                    const JsonValue& value,
                                    const ReadContext& context) {
  nlohmann::json object = nlohmann::json::object();
  for (const JsonMember& member : value.members) {
    DDPRUN_ASSIGN(std::string name, Substitute(member.key, member.key_span, context.environment));
    DDPRUN_ASSIGN(nlohmann::json inner, ToJson(key, member.value, context));
    if (object.emplace(name, std::move(inner)).second) continue;
    return ErrorAt(member.key_span, {.title = "DUPLICATE KEY",
                                     .page = "duplicate-key",
                                     .found = "\"" + Printable(name, 60) + "\" stands here again:",
                                     .hint = "Remove one of them."});
  }
  return object;
}

// The recursion is not deep, because ParseJson() limits the depth.
Result<nlohmann::json> ToJson(const Key& key, const JsonValue& value, const ReadContext& context) {
  switch (value.kind) {
    case Kind::kNull:
      return nlohmann::json();
    case Kind::kBool:
      return nlohmann::json(value.boolean);
    case Kind::kNumber: {
      nlohmann::json number = nlohmann::json::parse(value.text, nullptr, false);
      if (number.is_discarded()) return OutOfRange(key, value);  // 1e999
      return number;
    }
    case Kind::kString: {
      DDPRUN_ASSIGN(std::string text, Substitute(value.text, value.span, context.environment));
      return nlohmann::json(std::move(text));
    }
    case Kind::kArray:
      break;
    case Kind::kObject:
      return ObjectToJson(key, value, context);
  }
  nlohmann::json list = nlohmann::json::array();
  for (const JsonValue& element : value.elements) {
    DDPRUN_ASSIGN(nlohmann::json inner, ToJson(key, element, context));
    list.push_back(std::move(inner));
  }
  return list;
}

Status ReadObject(const Key& key,
                  const JsonValue& value,
                  const ReadContext& context,
                  JsonText* field) {
  if (value.kind != Kind::kObject) return WrongType(key, value);
  DDPRUN_ASSIGN(const nlohmann::json object, ToJson(key, value, context));
  // A variable's value may have bytes that are not UTF-8.
  field->text = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return {};
}

struct Reader {
  const Key& key;
  const JsonValue& value;
  const ReadContext& context;

  Status operator()(bool* field) const {
    if (value.kind != Kind::kBool) return WrongType(key, value);
    *field = value.boolean;
    return {};
  }
  Status operator()(int64_t* field) const { return ReadInteger(key, value, field); }
  Status operator()(double* field) const { return ReadNumber(key, value, field); }
  Status operator()(NumberOrAuto* field) const {
    if (value.kind != Kind::kString) {
      field->automatic = false;
      return ReadNumber(key, value, &field->number);
    }
    DDPRUN_ASSIGN(const std::string word, Substitute(value.text, value.span, context.environment));
    if (word != "auto") return WrongType(key, value);
    field->automatic = true;
    return {};
  }
  Status operator()(Interval* field) const { return ReadInterval(key, value, context, field); }
  Status operator()(std::string* field) const { return ReadString(key, value, context, field); }
  Status operator()(JsonText* field) const { return ReadObject(key, value, context, field); }
  Status operator()(const ChoiceSlot& slot) const { return ReadChoice(key, value, context, slot); }
  Status operator()(std::array<double, 2>* field) const {
    if (value.kind != Kind::kArray) return WrongType(key, value);
    const size_t size = value.elements.size();
    if (size != field->size()) {
      return WrongType(key, value, "a list of " + std::to_string(size));
    }
    for (size_t i = 0; i < size; ++i) {
      DDPRUN_TRY(ReadNumber(key, value.elements[i], &field->at(i)));
    }
    return {};
  }
  // A single string means a list of one.
  template <typename T>
  Status operator()(std::vector<T>* field) const {
    const bool alone = std::is_same_v<T, std::string> && value.kind == Kind::kString;
    if (!alone && value.kind != Kind::kArray) return WrongType(key, value);
    field->assign(alone ? 1 : value.elements.size(), T());
    for (size_t i = 0; i < field->size(); ++i) {
      DDPRUN_TRY((Reader{key, alone ? value : value.elements[i], context}(&field->at(i))));
    }
    return {};
  }
};

}  // namespace

Status AssignValue(const Key& key,
                   const JsonValue& value,
                   const ReadContext& context,
                   Config* config) {
  if (value.kind == Kind::kNull && !key.derived_default.empty()) return {};
  return std::visit(Reader{key, value, context}, key.slot(*config));
}

}  // namespace ddprun::trainer
