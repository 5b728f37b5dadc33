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
  // The integer value; `fallback` when unset or empty; an error that names the variable, its
  // value and the range when it is no integer of [min, max].
  Result<int64_t> GetInt(std::string_view name, int64_t fallback, int64_t min, int64_t max) const;

  void Set(std::string_view name, std::string_view value);
  void Unset(std::string_view name);
  // "NAME=value" entries, sorted by name, for execve.
  std::vector<std::string> Entries() const;

 private:
  Variables variables_;
};

// Whole-text integer, no blanks, no trailing characters; nullopt otherwise.
std::optional<int64_t> ParseInt(std::string_view text);

// Seconds, also fractions, from `least` to a year.
std::optional<std::chrono::milliseconds> ParseSeconds(std::string_view text, double least);

}  // namespace ddprun
