#include "trainer/report/eval_json.h"

#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/report/json_number.h"

namespace ddprun::trainer {

nlohmann::ordered_json MetricsJson(const EvalReport& report) {
  auto object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : report.metrics) object[name] = JsonNumber(value);
  const ConfusionMatrix& confusion = report.confusion;
  if (confusion.size() == 0) return object;
  auto rows = nlohmann::ordered_json::array();
  for (size_t actual = 0; actual < confusion.size(); ++actual) {
    auto row = nlohmann::ordered_json::array();
    for (size_t predicted = 0; predicted < confusion.size(); ++predicted) {
      row.push_back(confusion.At(actual, predicted));
    }
    rows.push_back(std::move(row));
  }
  object["confusion_matrix"] = {{"labels", confusion.labels}, {"counts", std::move(rows)}};
  return object;
}

ConfusionMatrix ConfusionIn(const nlohmann::json& line) {
  ConfusionMatrix confusion;
  try {
    const nlohmann::json& object = line.at("confusion_matrix");
    object.at("labels").get_to(confusion.labels);
    for (const auto& row : object.at("counts").get<std::vector<std::vector<int64_t>>>()) {
      if (row.size() != confusion.size()) return {};
      confusion.counts.insert(confusion.counts.end(), row.begin(), row.end());
    }
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  if (confusion.counts.size() != confusion.size() * confusion.size()) return {};
  return confusion;
}

}  // namespace ddprun::trainer
