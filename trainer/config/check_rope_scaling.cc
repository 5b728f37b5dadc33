#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/config/checker.h"

namespace ddprun::trainer {

namespace {

using nlohmann::json;

struct ScalingType {
  std::string_view name;
  std::vector<std::string> numbers;  // keys that it needs; it takes no others
};

const std::array<ScalingType, 4>& ScalingTypes() {
  static const std::array<ScalingType, 4> types = {
      {{"default", {}},
       {"linear", {"factor"}},
       {"dynamic", {"factor"}},
       {"llama3",
        {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}}}};
  return types;
}

std::string Quoted(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

std::string TextOf(const json& object, const std::string& key) {
  return object.contains(key) ? Quoted(key) + " is " + object.at(key).dump()
                              : Quoted(key) + " is missing";
}

// Returns the problem; "" means none.
std::string ProblemOf(const json& scaling) {
  // "type" is the older name; transformers uses it if both are there.
  const std::string type_key = scaling.contains("type") ? "type" : "rope_type";
  const auto* type = std::ranges::find_if(ScalingTypes(), [&](const ScalingType& known) {
    return scaling.value(type_key, json()) == known.name;
  });
  if (type == ScalingTypes().end()) {
    return TextOf(scaling, type_key) +
           "; known are \"default\", \"linear\", \"dynamic\" and \"llama3\"";
  }
  for (const std::string& number : type->numbers) {
    const json value = scaling.value(number, json());
    const double least = number == "factor" ? 1 : 0;
    const bool whole = number.starts_with("original");
    if (!value.is_number() || (whole && !value.is_number_unsigned()) || value < least ||
        value == 0) {
      return TextOf(scaling, number) + "; " + Quoted(type->name) + " needs a " +
             (whole       ? "whole number above 0"
              : least > 0 ? "number of at least 1"
                          : "number above 0");
    }
  }
  for (const auto& [key, value] : scaling.items()) {
    if (key == "type" || key == "rope_type" || std::ranges::count(type->numbers, key) > 0) continue;
    return Quoted(key) + " is not an option of " + Quoted(type->name);
  }
  if (type->name == "llama3" && scaling.at("high_freq_factor") <= scaling.at("low_freq_factor")) {
    return "\"high_freq_factor\" is not above \"low_freq_factor\"";
  }
  return "";
}

}  // namespace

void CheckRopeScaling(Checker& check) {
  const json scaling = json::parse(check.config.model.rope_scaling.text);
  if (scaling.empty()) return;
  const std::string problem = ProblemOf(scaling);
  if (problem.empty()) return;
  check.Conflict(
      "model.rope_scaling", "In model.rope_scaling " + problem + ":",
      "Write it as config.json of transformers has it, such as {\"rope_type\": \"linear\", "
      "\"factor\": 4.0}.");
}

}  // namespace ddprun::trainer
