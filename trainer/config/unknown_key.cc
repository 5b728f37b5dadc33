#include "trainer/config/unknown_key.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/suggest.h"
#include "trainer/config/diagnostic.h"
#include "trainer/config/keys.h"

namespace ddprun::trainer {

namespace {

std::string Quoted(std::string_view text) {
  return "\"" + Printable(text, 60) + "\"";
}

// Our key under another tool's name; keys of `section` first.
std::optional<std::string> ForeignNameHint(std::string_view section, std::string_view name) {
  const Key* found = nullptr;
  const Alias* found_alias = nullptr;
  for (const Key& key : AllKeys()) {
    for (const Alias& alias : key.aliases) {
      if (alias.name != name || (found != nullptr && key.section != section)) continue;
      found = &key;
      found_alias = &alias;
    }
  }
  if (found == nullptr) return std::nullopt;
  return Quoted(name) + " is the name in " + std::string(found_alias->origin) + "; here it is " +
         found->Path() + UnitAndDefault(*found) + ".";
}

// The sections that do have a key of this name.
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

std::optional<std::string> NearestKeyHint(std::string_view section, std::string_view name) {
  std::vector<std::string> names;
  for (const Key& key : AllKeys()) {
    if (key.section == section) names.emplace_back(key.name);
  }
  const std::optional<std::string> nearest = Nearest(name, names);
  if (!nearest) return std::nullopt;
  return "Did you mean " + Quoted(*nearest) + "?" + UnitAndDefault(*FindKey(section, *nearest));
}

std::optional<std::string> NearestAnywhereHint(std::string_view name) {
  std::vector<std::string> names;
  for (const Key& key : AllKeys()) names.emplace_back(key.name);
  const std::optional<std::string> nearest = Nearest(name, names);
  if (!nearest) return std::nullopt;
  const auto key = std::find_if(AllKeys().begin(), AllKeys().end(),
                                [&](const Key& k) { return k.name == *nearest; });
  return "Did you mean " + key->Path() + "?" + UnitAndDefault(*key);
}

std::string KeysOf(std::string_view section) {
  std::string text = "Its keys are ";
  size_t column = text.size();
  const char* separator = "";
  for (const Key& key : AllKeys()) {
    if (key.section != section) continue;
    text += separator;
    if (column + key.name.size() > 90) {
      text += "\n";
      column = 0;
    }
    text += key.name;
    column += key.name.size() + 2;
    separator = ", ";
  }
  return text + ".";
}

std::optional<std::string> SectionHint(std::string_view name) {
  std::vector<std::string> names;
  for (const Section& section : AllSections()) {
    names.emplace_back(section.name);
    if (std::find(section.aliases.begin(), section.aliases.end(), name) != section.aliases.end()) {
      return "Here that section is called " + Quoted(section.name) + ".";
    }
  }
  const std::optional<std::string> nearest = Nearest(name, names);
  if (!nearest) return std::nullopt;
  return "Did you mean " + Quoted(*nearest) + "?";
}

}  // namespace

Error UnknownKey(std::string_view section, std::string_view name, const Span& span) {
  std::optional<std::string> hint = NearestKeyHint(section, name);
  // An exact name elsewhere says more than a similar one here, unless that is only a slip away.
  const bool slip = hint && std::any_of(AllKeys().begin(), AllKeys().end(), [&](const Key& key) {
                      return key.section == section && EditDistance(key.name, name) <= 2;
                    });
  if (!slip) {
    if (auto better = ForeignNameHint(section, name)) {
      hint = better;
    } else if (auto other = OtherSectionHint(name)) {
      hint = other;
    }
  }
  if (!hint) hint = NearestAnywhereHint(name);
  return ErrorAt(span,
                 {.title = "UNKNOWN KEY",
                  .page = "unknown-key",
                  .found = "The section " + Quoted(section) + " has no key " + Quoted(name) + ":",
                  .hint = hint.value_or(KeysOf(section))});
}

Error UnknownSection(std::string_view name, const Span& span) {
  std::optional<std::string> hint = SectionHint(name);
  if (!hint) hint = OtherSectionHint(name);
  if (!hint) hint = ForeignNameHint("", name);
  if (!hint) hint = NearestAnywhereHint(name);
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
