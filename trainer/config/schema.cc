#include <cmath>

#include <nlohmann/json.hpp>

#include "trainer/config/config_text.h"
#include "trainer/config/keys.h"

namespace ddprun::trainer {

namespace {

using Json = nlohmann::ordered_json;

void AddRange(const Range& range, Json* schema) {
  const auto number = [](double value) { return Json::parse(SlotText(&value)); };
  if (std::isfinite(range.min)) {
    (*schema)[range.min_excluded ? "exclusiveMinimum" : "minimum"] = number(range.min);
  }
  if (std::isfinite(range.max)) {
    (*schema)[range.max_excluded ? "exclusiveMaximum" : "maximum"] = number(range.max);
  }
}

Json Typed(const char* type, const Range& range = {}) {
  Json schema = {{"type", type}};
  AddRange(range, &schema);
  return schema;
}

struct SchemaOf {
  const Range& range;
  Json operator()(const bool* /*field*/) const { return Typed("boolean"); }
  Json operator()(const int64_t* /*field*/) const { return Typed("integer", range); }
  Json operator()(const double* /*field*/) const { return Typed("number", range); }
  Json operator()(const NumberOrAuto* /*field*/) const {
    return {{"anyOf", {Typed("number", range), {{"const", "auto"}}}}};
  }
  Json operator()(const Interval* /*field*/) const {
    return {{"anyOf", {Typed("integer", range), Typed("string")}}};
  }
  Json operator()(const std::string* /*field*/) const { return Typed("string"); }
  Json operator()(const JsonText* /*field*/) const { return Typed("object"); }
  Json operator()(const ChoiceSlot& slot) const {
    Json schema;
    for (const std::string_view word : slot.words) schema["enum"].push_back(std::string(word));
    return schema;
  }
  Json operator()(const std::array<double, 2>* /*field*/) const {
    return {{"type", "array"}, {"items", Typed("number", range)}, {"minItems", 2}, {"maxItems", 2}};
  }
  Json operator()(const std::vector<int64_t>* /*field*/) const {
    return {{"type", "array"}, {"items", Typed("integer", range)}};
  }
  Json operator()(const std::vector<double>* /*field*/) const {
    return {{"type", "array"}, {"items", Typed("number", range)}};
  }
  Json operator()(const std::vector<std::string>* /*field*/) const {
    return {{"type", {"string", "array"}}, {"items", Typed("string")}};
  }
};

Json KeySchema(const Key& key) {
  Config config;
  Json schema = std::visit(SchemaOf{key.range}, key.slot(config));
  // Such a key may be null, because its default depends on other keys.
  if (!key.derived_default.empty()) schema["type"] = {schema["type"], "null"};
  std::string description(key.meaning);
  if (!key.unit.empty()) description += " Unit: " + std::string(key.unit) + ".";
  if (!key.derived_default.empty()) {
    description += " Default: " + std::string(key.derived_default) + ".";
  } else if (!key.required) {
    schema["default"] = Json::parse(DefaultText(key));
  }
  schema["description"] = description;
  return schema;
}

}  // namespace

std::string WriteSchema() {
  Json properties;
  properties["$schema"] = {{"type", "string"}};
  properties["config_version"] = {{"const", 1}};
  Json required = Json::array();
  for (const Section& section : AllSections()) {
    Json keys;
    Json required_keys = Json::array();
    for (const Key& key : AllKeys()) {
      if (key.section != section.name) continue;
      keys[std::string(key.name)] = KeySchema(key);
      if (key.required) required_keys.push_back(std::string(key.name));
    }
    Json object = {{"type", "object"},
                   {"description", std::string(section.meaning)},
                   {"properties", std::move(keys)},
                   {"additionalProperties", false}};
    if (!required_keys.empty()) {
      object["required"] = std::move(required_keys);
      required.push_back(std::string(section.name));
    }
    properties[std::string(section.name)] = std::move(object);
  }
  const Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                       {"title", "ddprun training config"},
                       {"type", "object"},
                       {"properties", std::move(properties)},
                       {"required", std::move(required)},
                       {"additionalProperties", false}};
  return schema.dump(2) + "\n";
}

}  // namespace ddprun::trainer
