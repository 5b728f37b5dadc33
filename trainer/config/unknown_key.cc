#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "trainer/config/diagnostic.h"
#include "trainer/config/foreign_names.h"
#include "trainer/config/keys.h"

namespace ddprun::trainer {

namespace {

std::string Quoted(std::string_view text) {
  return "\"" + Printable(text, 60) + "\"";
}

// Returns the key whose name in another tool is `name`. `section` "" means any section.
std::optional<std::string> ForeignNameHint(std::string_view section, std::string_view name) {
  for (const Key& key : AllKeys()) {
    if (!section.empty() && key.section != section) continue;
    for (const Alias& alias : key.aliases) {
      if (!HasName(alias.names, name)) continue;
      const std::string note = alias.note.empty() ? "" : "\n" + std::string(alias.note);
      return Quoted(name) + " is the name in " + std::string(alias.origin) + "; here it is " +
             key.Path() + UnitAndDefault(key) + "." + note;
    }
  }
  return std::nullopt;
}

// Returns the sections that have a key of this name.
std::optional<std::string> OtherSectionHint(std::string_view name) {
  std::vector<const Key*> found;
  for (const Key& key : AllKeys()) {
    if (key.name == name) found.push_back(&key);
  }
  if (found.empty()) return std::nullopt;
  std::string paths;
  for (const Key* key : found) paths += (paths.empty() ? "" : ", ") + key->Path();
  if (found.size() > 1) return "Keys of that name are " + paths + ".";
  return Quoted(name) + " belongs in the section " + Quoted(found[0]->section) + ": " + paths + ".";
}

// Returns the key with nearly the same letters. `section` "" means any section.
std::optional<std::string> NearestKeyHint(std::string_view section, std::string_view name) {
  std::vector<std::string> names;
  for (const Key& key : AllKeys()) {
    if (section.empty() || key.section == section) names.emplace_back(key.name);
  }
  const std::optional<std::string> nearest = FindNearest(name, names);
  if (!nearest) return std::nullopt;
  const auto key = std::ranges::find_if(AllKeys(), [&](const Key& k) {
    return k.name == *nearest && (section.empty() || k.section == section);
  });
  return "Did you mean " + (section.empty() ? key->Path() : Quoted(*nearest)) + "?" +
         UnitAndDefault(*key);
}

std::string KeysOf(std::string_view section) {
  std::string text = "Its keys are ";
  size_t column = text.size();
  bool first = true;
  for (const Key& key : AllKeys()) {
    if (key.section != section) continue;
    const bool wraps = column + key.name.size() > 90;
    if (!std::exchange(first, false)) text += wraps ? ",\n" : ", ";
    if (wraps) column = 0;
    text += key.name;
    column += key.name.size() + 2;
  }
  return text + ".";
}

std::optional<std::string> SectionAliasHint(std::string_view name) {
  for (const Section& section : AllSections()) {
    if (std::ranges::find(section.aliases, name) == section.aliases.end()) continue;
    return "Here that section is called " + Quoted(section.name) + ".";
  }
  return std::nullopt;
}

std::optional<std::string> NearestSectionHint(std::string_view name) {
  std::vector<std::string> names;
  for (const Section& section : AllSections()) names.emplace_back(section.name);
  const std::optional<std::string> nearest = FindNearest(name, names);
  if (!nearest) return std::nullopt;
  return "Did you mean " + Quoted(*nearest) + "?";
}

// Returns a hint for the name in any section.
std::optional<std::string> KnownNameHint(std::string_view name) {
  if (auto hint = OtherSectionHint(name)) return hint;
  if (auto hint = ForeignNameHint("", name)) return hint;
  return WithoutKeyHint(name);
}

}  // namespace

// Certain hints come before similar names.
Error UnknownKey(std::string_view section, std::string_view name, const Span& span) {
  std::optional<std::string> hint = ForeignNameHint(section, name);
  if (!hint) hint = KnownNameHint(name);
  if (!hint && FindSection(name) != nullptr) {
    hint = Quoted(name) + " is a section of its own, beside " + Quoted(section) + ".";
  }
  if (!hint) hint = NearestKeyHint(section, name);
  if (!hint) hint = NearestKeyHint("", name);
  return ErrorAt(span,
                 {.title = "UNKNOWN KEY",
                  .page = "unknown-key",
                  .found = "The section " + Quoted(section) + " has no key " + Quoted(name) + ":",
                  .hint = hint.value_or(KeysOf(section))});
}

Error UnknownSection(std::string_view name, bool has_keys, const Span& span) {
  std::optional<std::string> hint;
  if (has_keys) hint = SectionAliasHint(name);
  if (!hint) hint = KnownNameHint(name);
  if (!hint) hint = SectionAliasHint(name);
  if (!hint) hint = NearestSectionHint(name);
  if (!hint) hint = NearestKeyHint("", name);
  if (!hint) {
    hint =
        "The sections are run, model, data, training, optimizer, scheduler, strategy, comm,\n"
        "checkpoint, evaluation and report.";
  }
  return ErrorAt(span, {.title = "UNKNOWN SECTION",
                        .page = "unknown-key",
                        .found = "A config has no section " + Quoted(name) + ":",
                        .hint = *hint});
}

}  // namespace ddprun::trainer
