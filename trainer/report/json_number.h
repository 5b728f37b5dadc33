// Numbers in the JSON that a run writes.
#pragma once

#include <cmath>

#include <nlohmann/json.hpp>

namespace ddprun::trainer {

// Returns the number, or "nan", "inf", "-inf": bare ones are not JSON, and null would hide them.
inline nlohmann::ordered_json JsonNumber(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

}  // namespace ddprun::trainer
