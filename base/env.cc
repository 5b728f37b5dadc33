#include "base/env.h"

#include <unistd.h>

#include <charconv>
#include <cmath>

namespace ddprun {

Environment Environment::OfProcess() {
  Environment result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      result.Set(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return result;
}

std::optional<std::string> Environment::Get(std::string_view name) const {
  const auto it = variables_.find(name);
  if (it == variables_.end()) return std::nullopt;
  return it->second;
}

std::string Environment::GetOr(std::string_view name, std::string_view fallback) const {
  return Get(name).value_or(std::string(fallback));
}

Result<int64_t> Environment::GetInt(std::string_view name,
                                    int64_t fallback,
                                    int64_t min,
                                    int64_t max) const {
  const std::string text = GetOr(name, "");
  if (text.empty()) return fallback;
  const std::optional<int64_t> value = ParseInt(text);
  if (value && *value >= min && *value <= max) return *value;
  return Error{.code = Code::kUsage,
               .title = "BAD ENVIRONMENT VARIABLE",
               .where = std::string(name),
               .what = std::string(name) + " is \"" + text + "\"; expected an integer from " +
                       std::to_string(min) + " to " + std::to_string(max) + ".",
               .hint = "Correct it, or unset it to use " + std::to_string(fallback) + ".",
               .page = "bad-environment-variable"};
}

void Environment::Set(std::string_view name, std::string_view value) {
  variables_.insert_or_assign(std::string(name), std::string(value));
}

void Environment::Unset(std::string_view name) {
  if (const auto it = variables_.find(name); it != variables_.end()) variables_.erase(it);
}

std::vector<std::string> Environment::Entries() const {
  std::vector<std::string> entries;
  entries.reserve(variables_.size());
  for (const auto& [name, value] : variables_) entries.push_back(name + "=" + value);
  return entries;
}

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<std::chrono::milliseconds> ParseSeconds(std::string_view text, double least) {
  constexpr double kYearSeconds = 366 * 86400.0;
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, seconds);
  const bool in_range = seconds >= least && seconds <= kYearSeconds;
  if (problem != std::errc() || stop != end || !in_range) return std::nullopt;
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

}  // namespace ddprun
