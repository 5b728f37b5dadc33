#include "trainer/config/entries.h"

#include <optional>
#include <utility>

#include "trainer/config/foreign_names.h"

namespace ddprun::trainer {

namespace {

constexpr std::string_view kVersion = "1";

Error DuplicateKey(const JsonMember& member, const Span& first) {
  return ErrorAt(member.key_span,
                 {.title = "DUPLICATE KEY",
                  .page = "duplicate-key",
                  .found = "\"" + Printable(member.key, 60) + "\" stands here again:",
                  .expected = "It stands here first:\n" + Snippet(first),
                  .hint = "Remove one of them."});
}

// Reports each key that is twice in `object`; the first one counts.
std::vector<const JsonMember*> UniqueMembers(const JsonValue& object, Problems* problems) {
  std::map<std::string_view, const JsonMember*> seen;
  std::vector<const JsonMember*> unique;
  for (const JsonMember& member : object.members) {
    const auto [first, is_new] = seen.emplace(member.key, &member);
    if (is_new) {
      unique.push_back(&member);
      continue;
    }
    const Span first_span = first->second->key_span;
    problems->Add([&] { return DuplicateKey(member, first_span); });
  }
  return unique;
}

Error BadOverride(const Source& source, const std::string& found) {
  return ErrorAt(
      {&source, 0, source.text.size()},
      {.title = "BAD OVERRIDE",
       .page = "bad-override",
       .found = found,
       .hint = "Write --set section.key=value, as in --set optimizer.learning_rate=1e-4."});
}

// Returns a hint: { "optimizer": "adamw" } means { "optimizer": { "type": "adamw" } }.
std::string AsObject(const JsonMember& section) {
  if (section.value.kind != JsonValue::Kind::kString) return "";
  for (const char* name : {"type", "lr_scheduler_type"}) {
    if (FindKey(section.key, name) == nullptr) continue;
    return "Write { \"" + std::string(name) + "\": \"" + Printable(section.value.text, 40) +
           "\" }.";
  }
  return "";
}

bool IsText(const Key& key) {
  Config config;
  const Slot slot = key.slot(config);
  return std::holds_alternative<std::string*>(slot) || std::holds_alternative<ChoiceSlot>(slot);
}

// Returns the value of an override; nullopt if it is broken JSON.
std::optional<JsonValue> OverrideValue(const Key& key,
                                       const Source& source,
                                       size_t offset,
                                       Problems* problems) {
  const std::string text = source.text.substr(offset);
  JsonValue as_text;
  as_text.kind = JsonValue::Kind::kString;
  as_text.span = {&source, offset, source.text.size()};
  as_text.text = text;
  Result<JsonValue> parsed = ParseJson(source, offset);
  // --set run.name=42 sets a string, like --set run.name="42".
  if (IsText(key)) {
    const bool quoted = parsed.has_value() && parsed->kind == JsonValue::Kind::kString;
    const bool null = parsed.has_value() && parsed->kind == JsonValue::Kind::kNull;
    return quoted || null ? *std::move(parsed) : as_text;
  }
  if (parsed.has_value()) return *std::move(parsed);
  const bool meant_as_json = !text.empty() && (text[0] == '[' || text[0] == '"' || text[0] == '{');
  if (!meant_as_json) return as_text;
  problems->Add(std::move(parsed).error());
  return std::nullopt;
}

}  // namespace

void Entries::AddFile(const JsonValue& root, Problems* problems) {
  if (root.kind != JsonValue::Kind::kObject) {
    problems->Add(ErrorAt(
        root.span,
        {.title = "WRONG TYPE",
         .page = "wrong-type",
         .found = std::string("A config is an object, this is ") + KindName(root.kind) + ":",
         .hint = "Begin with { \"model\": { \"type\": \"gpt\" }, ... }."}));
    return;
  }
  for (const JsonMember* member : UniqueMembers(root, problems)) {
    if (!AddTopLevel(*member, problems)) AddSection(*member, problems);
  }
}

// Handles keys that describe the file itself.
bool Entries::AddTopLevel(const JsonMember& member, Problems* problems) {
  if (member.key == "$schema") return true;  // for editors
  if (member.key != "config_version") return false;
  if (member.value.text != kVersion) {
    problems->Add(ErrorAt(member.value.span,
                          {.title = "OUT OF RANGE",
                           .page = "out-of-range",
                           .found = "This ddp-trainer reads config_version 1 only:",
                           .hint = "Remove the key, or use the ddp-trainer the file is for."}));
  }
  return true;
}

void Entries::AddSection(const JsonMember& section, Problems* problems) {
  if (FindSection(section.key) == nullptr) {
    const bool has_keys = section.value.kind == JsonValue::Kind::kObject;
    problems->Add([&] { return UnknownSection(section.key, has_keys, section.key_span); });
    return;
  }
  sections_[section.key] = section.key_span;
  if (section.value.kind != JsonValue::Kind::kObject) {
    problems->Add(ErrorAt(section.value.span, {.title = "WRONG TYPE",
                                               .page = "wrong-type",
                                               .found = "The section \"" + section.key + "\" is " +
                                                        KindName(section.value.kind) + " here:",
                                               .expected = "Accepted: an object, { ... }.",
                                               .hint = AsObject(section)}));
    return;
  }
  for (const JsonMember* member : UniqueMembers(section.value, problems)) {
    if (const Key* key = FindKey(section.key, member->key)) {
      entries_[key] = {member->value, member->key_span};
    } else {
      problems->Add([&] { return UnknownKey(section.key, member->key, member->key_span); });
    }
  }
}

void Entries::AddOverride(const std::string& text, Problems* problems) {
  const Source& source = overrides_.emplace_back(Source{Source::Kind::kOverride, "", text});
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    problems->Add(BadOverride(source, "A key and a value with = between them were expected here:"));
    return;
  }
  const std::string_view path = std::string_view(text).substr(0, equals);
  const size_t dot = path.find('.');
  const std::string_view section = path.substr(0, dot);
  const Span section_span{&source, 0, section.size()};
  if (FindSection(section) == nullptr) {
    problems->Add(UnknownSection(section, dot != std::string_view::npos, section_span));
    return;
  }
  if (dot == std::string_view::npos) {
    problems->Add(BadOverride(source, "This names a whole section:"));
    return;
  }
  const Span name_span{&source, dot + 1, std::max(equals, dot + 2)};
  const Key* key = FindKey(path);
  if (key == nullptr) {
    problems->Add(UnknownKey(section, path.substr(dot + 1), name_span));
    return;
  }
  std::optional<JsonValue> value = OverrideValue(*key, source, equals + 1, problems);
  if (value) entries_[key] = {*std::move(value), {&source, 0, equals}};
}

const Entry* Entries::Find(const Key& key) const {
  const auto found = entries_.find(&key);
  return found == entries_.end() ? nullptr : &found->second;
}

const Entry* Entries::Find(std::string_view path) const {
  return Find(GetKey(path));
}

Error Entries::ErrorAbout(std::string_view path, const Diagnostic& diagnostic) const {
  if (const Entry* entry = Find(path)) return ErrorAt(entry->value.span, diagnostic);
  const auto section = sections_.find(path.substr(0, path.find('.')));
  if (section != sections_.end()) return ErrorAt(section->second, diagnostic);
  Diagnostic without_place = diagnostic;
  if (without_place.found.ends_with(':')) without_place.found.back() = '.';
  return ErrorIn(file_label_, without_place);
}

}  // namespace ddprun::trainer
