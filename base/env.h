// The only reads of the process environment. Values are read once into an Environment, which is
// then passed around, so that tests inject their own and no thread races with setenv.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun {

class Environment {
 public:
  using Variables = std::map<std::string, std::string, std::less<>>;

  Environment() = default;
  explicit Environment(Variables variables) : variables_(std::move(variables)) {}

  // A copy of this process's environment. Call it before threads are started.
  static Environment OfProcess();

  std::optional<std::string> Get(std::string_view name) const;
  std::string GetOr(std::string_view name, std::string_view fallback) const;
  // Returns the integer value, or `fallback` if the variable is unset or empty. If the value is no
  // integer in [min, max], the error names the variable, its value and the range.
  Result<int64_t> GetInt(std::string_view name, int64_t fallback, int64_t min, int64_t max) const;

  void Set(std::string_view name, std::string_view value);
  void Unset(std::string_view name);
  // Returns "NAME=value" entries, sorted by name, for execve().
  std::vector<std::string> Entries() const;

 private:
  Variables variables_;
};

// Reads an integer that is the whole text, without blanks; nullopt for any other text.
std::optional<int64_t> ParseInt(std::string_view text);

// Reads seconds, also fractions, from `least` to a year; nullopt for any other text.
std::optional<std::chrono::milliseconds> ParseSeconds(std::string_view text, double least);

}  // namespace ddprun
