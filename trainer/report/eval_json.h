// The results of an evaluation in JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trainer/report/eval_report.h"

namespace ddprun::trainer {

// Returns the metrics by name, and the confusion matrix if there is one.
nlohmann::ordered_json MetricsJson(const EvalReport& report);
// Returns the confusion matrix in a line of metrics.jsonl; an empty one if there is none that is
// whole.
ConfusionMatrix ConfusionIn(const nlohmann::json& line);

}  // namespace ddprun::trainer
