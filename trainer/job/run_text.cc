#include "trainer/job/run_text.h"

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
      {"matmul_engine", MatmulEngineName(CurrentMatmulEngine())},
      {"data", DescribeData(job)}};
  if (evaluation_due) run[kEvaluationDue] = true;
  // A table may have names that are not UTF-8, and JSON may not.
  return run.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

nlohmann::json ReadRunText(const std::string& run) {
  nlohmann::json json = nlohmann::json::parse(run, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : nlohmann::json::object();
}

bool OwesEvaluation(const std::string& run) {
  return ReadRunText(run).contains(kEvaluationDue);
}

}  // namespace ddprun::trainer
