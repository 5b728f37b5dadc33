// The table of all config keys. Reading, messages, --set, the JSON Schema and docs/config.md use
// it, so that they agree. Constant after its first use; any thread.
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

// Accepted numbers, for lists those of each element.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_excluded = false;
  bool max_excluded = false;
};

// Names of a key in another tool.
struct Alias {
  std::string_view names;  // separated by blanks
  std::string_view origin;
  std::string_view note = {};  // a sentence, if the meaning differs
};

// The configs whose key `key` has one of `values`; all configs if `key` is "".
struct Scope {
  std::string_view key = {};
  std::vector<std::string_view> values = {};
};

// The units that an Interval may have.
enum class CountedIn { kAnything, kTime, kSteps };  // kSteps allows epochs, too

struct Key {
  std::string_view section;
  std::string_view name;
  // Returns the field of `config` that the key fills.
  Slot (*slot)(Config& config);
  std::string_view meaning;  // sentences: what it does, and why a user would change it
  std::string_view unit = {};
  Range range = {};
  // If the default depends on other keys: the text about it. Such a key may be null.
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
  std::vector<std::string_view> aliases = {};  // other words that users try
};

const std::vector<Section>& AllSections();
const std::vector<Key>& AllKeys();

// Return nullptr if there is none.
const Section* FindSection(std::string_view name);
const Key* FindKey(std::string_view section, std::string_view name);
// `path` is "section.name".
const Key* FindKey(std::string_view path);
// REQUIRES: the key exists.
const Key& GetKey(std::string_view path);

// Returns the default for docs and messages: JSON, or Key::derived_default.
std::string DefaultText(const Key& key);
// Returns whether the key has its default value in `config`.
bool IsDefault(const Key& key, const Config& config);
// Returns "an integer of at least 1", "one of "gpt", "mlp"".
std::string AcceptedText(const Key& key);
// Returns "data.format "text"", "model.type "gpt" or "bert"". REQUIRES: the key has only_for.
std::string ScopeText(const Key& key);
// Returns unit and default in brackets: " (MiB, default 25)".
std::string UnitAndDefault(const Key& key);

}  // namespace ddprun::trainer
