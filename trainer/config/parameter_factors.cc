#include "trainer/config/parameter_factors.h"

#include <nlohmann/json.hpp>

#include "trainer/config/checker.h"

namespace ddprun::trainer {

namespace {

using nlohmann::json;

struct FactorsKey {
  std::string path;
  const JsonText& value;
  bool zero_allowed;
  std::string hint;
};

// Returns the problem of an entry; "" means none.
std::string ProblemOf(const FactorsKey& key, const std::string& word, const json& factor) {
  if (word.empty()) return "a word is empty";
  const double number = factor.is_number() ? factor.get<double>() : -1;
  if (number > 0 || (number == 0 && key.zero_allowed)) return "";
  return "\"" + word + "\" has " + factor.dump() + ", which is no number " +
         (key.zero_allowed ? "of at least 0" : "above 0");
}

void CheckFactors(const FactorsKey& key, Checker& check) {
  const json factors = json::parse(key.value.text);
  for (const auto& [word, factor] : factors.items()) {
    const std::string problem = ProblemOf(key, word, factor);
    if (problem.empty()) continue;
    return check.Conflict(key.path, "In " + key.path + " " + problem + ":", key.hint);
  }
}

}  // namespace

void CheckParameterFactors(Checker& check) {
  const OptimizerConfig& optimizer = check.config.optimizer;
  const std::string wanted = "Write words of parameters' names with numbers, such as ";
  CheckFactors(
      {.path = "optimizer.learning_rate_factors",
       .value = optimizer.learning_rate_factors,
       .zero_allowed = false,
       .hint = wanted + "{\"classifier\": 10}. training.freeze\nhas the words of parameters that "
                        "are not trained at all."},
      check);
  CheckFactors({.path = "optimizer.weight_decay_factors",
                .value = optimizer.weight_decay_factors,
                .zero_allowed = true,
                .hint = wanted + "{\"classifier\": 0.1}."},
               check);
}

std::vector<ParameterFactor> ParameterFactorsOf(const JsonText& factors) {
  std::vector<ParameterFactor> result;
  const json object = json::parse(factors.text);
  for (const auto& [word, factor] : object.items()) {
    result.push_back({word, factor.get<double>()});
  }
  return result;
}

}  // namespace ddprun::trainer
