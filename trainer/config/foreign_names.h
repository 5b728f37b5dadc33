// Words of other trainers and launchers that a user types first: names that have no key here, and
// values that are called otherwise. Names of keys stand in the key table (Key::aliases). Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

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

}  // namespace ddprun::trainer
