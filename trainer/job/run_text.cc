#include "trainer/job/run_text.h"

#include <string_view>

#include <nlohmann/json.hpp>

#include "trainer/compute/matmul.h"
#include "trainer/config/config_text.h"
#include "trainer/job/open_data.h"
#include "trainer/job/step_plan.h"

namespace ddprun::trainer {

namespace {

constexpr const char* kEvaluationDue = "evaluation_due";

}  // namespace

std::string RunText(const Job& job, const StepPlan& plan, bool evaluation_due) {
  nlohmann::ordered_json run = {
      {"config", nlohmann::ordered_json::parse(WriteResolvedConfig(job.config))},
      {"world_size", plan.data_ranks},
      {"step_samples", plan.step_samples},
      {"total_steps", plan.total_steps},
      {"matmul_engine", MatmulEngineName(CurrentMatmulEngine())}};
  if (evaluation_due) run[kEvaluationDue] = true;
  // Names in a table may not be UTF-8, and JSON would have other names. Then there is no
  // description.
  constexpr std::string_view kReplaced = "\xef\xbf\xbd";
  using Handler = nlohmann::ordered_json::error_handler_t;
  const std::string data = DescribeData(job).dump(-1, ' ', false, Handler::replace);
  if (data.find(kReplaced) == data.npos) run["data"] = nlohmann::ordered_json::parse(data);
  return run.dump();
}

nlohmann::json ReadRunText(const std::string& run) {
  nlohmann::json json = nlohmann::json::parse(run, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : nlohmann::json::object();
}

bool OwesEvaluation(const std::string& run) {
  return ReadRunText(run).contains(kEvaluationDue);
}

}  // namespace ddprun::trainer
