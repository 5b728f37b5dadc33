// A line of metrics.jsonl, which another program may have written.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace ddprun::trainer {

using LineJson = nlohmann::json;

// Returns a number of a line; nullopt if it has none of this name.
inline std::optional<double> NumberOf(const LineJson& line, const std::string& name) {
  const auto value = line.find(name);
  if (value == line.end()) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  if (*value == "nan") return std::nan("");
  if (*value == "inf") return INFINITY;
  if (*value == "-inf") return -INFINITY;
  return std::nullopt;
}

inline std::string TextOf(const LineJson& line, const std::string& name) {
  const auto value = line.find(name);
  if (value == line.end()) return "";
  return value->is_string() ? value->get<std::string>()
                            : value->dump(-1, ' ', false, LineJson::error_handler_t::replace);
}

inline int64_t CountOf(const LineJson& line, const std::string& name) {
  const double count = NumberOf(line, name).value_or(0);
  return count >= 0 && count < 9e15 ? static_cast<int64_t>(count) : 0;
}

inline int64_t StepIn(const LineJson& line) {
  return CountOf(line, "step");
}

}  // namespace ddprun::trainer
