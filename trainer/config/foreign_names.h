// Words of other trainers and launchers that a user types first: names that have no key here, and
// values that are called otherwise. Names of keys stand in the key table (Key::aliases). Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "trainer/config/source.h"

namespace ddprun::trainer {

// Whether `name` is one of `names`, which have blanks between them; in letters of either case and
// with - or _, as tools differ in how they write the same name.
bool HasName(std::string_view names, std::string_view name);

// What to do without such a key: "TensorBoard is not there yet: ..."; nullopt for an unknown name.
std::optional<std::string> WithoutKeyHint(std::string_view name);

// For a `value` that is none of the words of the key `path`: "Here that is \"adamw\".", or that it
// is not there yet; nullopt when nothing is known of it.
std::optional<std::string> ForeignValueHint(std::string_view path, std::string_view value);
// The same, or else which of the key's `words` looks like it; "" for none.
std::string ChoiceHint(std::string_view path,
                       std::string_view value,
                       std::span<const std::string_view> words);

// What to tell a user whose key or section does not exist: the word that was meant, what another
// tool's word is called here, or the section that the key belongs to. Pure.

// `name` was found in the section `section`, which exists; `span` shows the name.
Error UnknownKey(std::string_view section, std::string_view name, const Span& span);

// `name` was found where a section is expected. `has_keys`: there are keys in it.
Error UnknownSection(std::string_view name, bool has_keys, const Span& span);

}  // namespace ddprun::trainer
