// Words of other trainers and launchers that users try: names without a key here, and values with
// other names. Other names of keys are in the key table (Key::aliases). Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <ddprun/error.h>
#include "trainer/config/source.h"

namespace ddprun::trainer {

// Returns whether `name` is one of `names`, which are separated by blanks. Ignores case and the
// difference between - and _.
bool HasName(std::string_view names, std::string_view name);

// Returns what to do without such a key, "TensorBoard is not there yet: ..."; nullopt if unknown.
std::optional<std::string> WithoutKeyHint(std::string_view name);

// Returns "Here that is \"adamw\"." for another tool's value of the key `path`, or that there is no
// such value yet; nullopt if `value` is unknown.
std::optional<std::string> ForeignValueHint(std::string_view path, std::string_view value);
// Returns ForeignValueHint(), or the key's word that looks like `value`, or "".
std::string ChoiceHint(std::string_view path,
                       std::string_view value,
                       std::span<const std::string_view> words);

// Errors about keys and sections that do not exist. They hint at a similar word, at the name of
// another tool's word here, or at the section that has the key. Pure.

// `name` is in `section`, which exists. `span` is the name's place.
Error UnknownKey(std::string_view section, std::string_view name, const Span& span);

// `name` is at the place of a section. `has_keys` means that it has keys.
Error UnknownSection(std::string_view name, bool has_keys, const Span& span);

}  // namespace ddprun::trainer
