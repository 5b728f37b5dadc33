#include "trainer/config/slot.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "trainer/config/value_types.h"

namespace ddprun::trainer {

namespace {

// Writes whole numbers without ".0".
nlohmann::json NumberJson(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::trunc(value) == value && std::abs(value) < kExact) return static_cast<int64_t>(value);
  return value;
}

struct ToJson {
  nlohmann::json operator()(const double* field) const { return NumberJson(*field); }
  nlohmann::json operator()(const NumberOrAuto* field) const {
    if (field->automatic) return "auto";
    return NumberJson(field->number);
  }
  nlohmann::json operator()(const Interval* field) const {
    const bool plain = field->amount == 0 || field->unit == IntervalUnit::kSteps;
    if (plain) return NumberJson(field->amount);
    return IntervalText(*field);
  }
  nlohmann::json operator()(const std::array<double, 2>* field) const {
    return {NumberJson(field->at(0)), NumberJson(field->at(1))};
  }
  nlohmann::json operator()(const std::vector<double>* field) const {
    nlohmann::json list = nlohmann::json::array();
    for (const double value : *field) list.push_back(NumberJson(value));
    return list;
  }
  nlohmann::json operator()(const JsonText* field) const {
    return nlohmann::json::parse(field->text);
  }
  nlohmann::json operator()(const ChoiceSlot& slot) const {
    return std::string(slot.words[slot.get(slot.field)]);
  }
  nlohmann::json operator()(const auto* field) const { return *field; }
};

}  // namespace

std::string SlotText(const Slot& slot) {
  // A path from the environment may have bytes that are not UTF-8, but JSON may not.
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  return std::visit(ToJson(), slot).dump(-1, ' ', false, kReplace);
}

}  // namespace ddprun::trainer
