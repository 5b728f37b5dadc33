// What a config file and its overrides say, key by key, before it is turned into values.
// Pure; one thread.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/config/diagnostic.h"
#include "trainer/config/json_document.h"
#include "trainer/config/keys.h"

namespace ddprun::trainer {

struct Entry {
  JsonValue value;
  Span key_span;
};

class Entries {
 public:
  explicit Entries(std::string file_label) : file_label_(std::move(file_label)) {}

  // Takes every known key of the file's tree, and reports unknown and duplicate ones.
  void AddFile(const JsonValue& root, Problems* problems);
  // Takes "section.name=value", which rules over what was added before. The value is JSON, or
  // else, as a shell makes quotes laborious, the text of a string.
  void AddOverride(const std::string& text, Problems* problems);

  // nullptr when nobody set the key.
  const Entry* Find(const Key& key) const;
  const Entry* Find(std::string_view path) const;
  // In the order of the key table.
  const std::map<const Key*, Entry>& all() const { return entries_; }

  // An error at the entry's value; without an entry at its section; else about the file.
  Error ErrorAbout(std::string_view path, const Diagnostic& diagnostic) const;

 private:
  void AddSection(const JsonMember& section, Problems* problems);
  bool AddTopLevel(const JsonMember& member, Problems* problems);

  std::string file_label_;
  std::map<const Key*, Entry> entries_;
  std::map<std::string, Span, std::less<>> sections_;  // where each begins in the file
  std::deque<Source> overrides_;                       // spans point into them: never moved
};

}  // namespace ddprun::trainer
