// The keys of a config file and its overrides, with values that are not converted yet. One thread.
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

  // Adds all known keys of the file's tree, and reports unknown and duplicate ones.
  void AddFile(const JsonValue& root, Problems* problems);
  // Adds "section.name=value", which replaces an earlier value. The value is JSON, or text without
  // quotes, because a shell needs them escaped.
  void AddOverride(const std::string& text, Problems* problems);

  // Return nullptr if neither the file nor an override sets the key.
  const Entry* Find(const Key& key) const;
  const Entry* Find(std::string_view path) const;
  // Returns the entries in the order of the key table.
  const std::map<const Key*, Entry>& all() const { return entries_; }

  // Returns an error at the entry's value, or else at its section, or else about the file.
  Error ErrorAbout(std::string_view path, const Diagnostic& diagnostic) const;

 private:
  void AddSection(const JsonMember& section, Problems* problems);
  bool AddTopLevel(const JsonMember& member, Problems* problems);

  std::string file_label_;
  std::map<const Key*, Entry> entries_;
  std::map<std::string, Span, std::less<>> sections_;  // their places in the file
  std::deque<Source> overrides_;                       // do not move, because spans point to them
};

}  // namespace ddprun::trainer
