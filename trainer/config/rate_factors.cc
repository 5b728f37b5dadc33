#include "trainer/config/rate_factors.h"

#include <nlohmann/json.hpp>

#include "trainer/config/checker.h"

namespace ddprun::trainer {

namespace {

using nlohmann::json;

// Returns the problem of an entry; "" means none.
std::string ProblemOf(const std::string& word, const json& factor) {
  if (word.empty()) return "a word is empty";
  if (factor.is_number() && factor.get<double>() > 0) return "";
  return "\"" + word + "\" has " + factor.dump() + ", which is no number above 0";
}

}  // namespace

void CheckRateFactors(Checker& check) {
  const json factors = json::parse(check.config.optimizer.learning_rate_factors.text);
  for (const auto& [word, factor] : factors.items()) {
    const std::string problem = ProblemOf(word, factor);
    if (problem.empty()) continue;
    return check.Conflict(
        "optimizer.learning_rate_factors", "In optimizer.learning_rate_factors " + problem + ":",
        "Write words of parameters' names with numbers, such as {\"classifier\": 10}. "
        "training.freeze\nhas the words of parameters that are not trained at all.");
  }
}

std::vector<RateFactor> RateFactorsOf(const OptimizerConfig& config) {
  std::vector<RateFactor> factors;
  const json object = json::parse(config.learning_rate_factors.text);
  for (const auto& [word, factor] : object.items()) {
    factors.push_back({word, factor.get<double>()});
  }
  return factors;
}

}  // namespace ddprun::trainer
