// The table of every config key. Reading, messages, --set, the JSON Schema and docs/config.md all
// come from it, so that none of them can disagree. Constant after first use; any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/slot.h"

namespace ddprun::trainer {

// Accepted numbers; for lists it holds for each element.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_excluded = false;
  bool max_excluded = false;
};

// What the same thing is called elsewhere.
struct Alias {
  std::string_view names;  // with blanks between them
  std::string_view origin;
  std::string_view note = {};  // a sentence, where it is not quite the same
};

// The configs whose key `key` has one of the values `values`; all where `key` is empty.
struct Scope {
  std::string_view key = {};
  std::vector<std::string_view> values = {};
};

// What an Interval is counted in.
enum class CountedIn { kAnything, kTime, kSteps };  // kSteps: or epochs

struct Key {
  std::string_view section;
  std::string_view name;
  // The field of `config` that the key fills.
  Slot (*slot)(Config& config);
  std::string_view meaning;  // sentences: what it does, and why one would change it
  std::string_view unit = {};
  Range range = {};
  // Shown instead of the plain default where that follows from other keys; such a key may be null.
  std::string_view derived_default = {};
  bool required = false;
  Scope only_for = {};
  bool input_path = false;  // relative to the config file's folder
  CountedIn counted = CountedIn::kAnything;
  std::vector<Alias> aliases = {};

  std::string Path() const { return std::string(section) + "." + std::string(name); }
};

struct Section {
  std::string_view name;
  std::string_view meaning;
  std::vector<std::string_view> aliases = {};  // words that people try for it
};

const std::vector<Section>& AllSections();
const std::vector<Key>& AllKeys();

// Each returns nullptr when there is none.
const Section* FindSection(std::string_view name);
const Key* FindKey(std::string_view section, std::string_view name);
// `path` is "section.name".
const Key* FindKey(std::string_view path);
// The key that is known to exist.
const Key& GetKey(std::string_view path);

// The default as it stands in docs and messages: JSON, or what it follows from.
std::string DefaultText(const Key& key);
// Whether the key has that value in `config`.
bool IsDefault(const Key& key, const Config& config);
// "an integer of at least 1", "one of "gpt", "mlp"".
std::string AcceptedText(const Key& key);
// "data.format "text"", "model.type "gpt" or "bert"". REQUIRES: the key has only_for.
std::string ScopeText(const Key& key);
// Unit and default in brackets: " (MiB, default 25)".
std::string UnitAndDefault(const Key& key);

}  // namespace ddprun::trainer
