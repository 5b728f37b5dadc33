#include "trainer/worker/evaluate_alone.h"

#include <exception>
#include <memory>

#include <ddprun/mesh.h>
#include "trainer/evaluation/evaluate.h"
#include "trainer/strategies/single.h"

namespace ddprun::trainer {

EvalReport EvaluateAlone(const Job& job,
                         const Dataset& data,
                         Model& model,
                         const std::function<void()>& before_batch,
                         const std::function<bool()>& stops) {
  Mesh alone;
  alone.device = model.parameters().front().device();
  const std::shared_ptr<Model> not_owned(std::shared_ptr<Model>(), &model);
  const auto strategy = MakeSingle(not_owned, /*optimizer=*/nullptr, alone);
  try {
    return EvaluateOn(data, job, alone, *strategy, model, before_batch,
                      [&stops](double) { return stops(); });
  } catch (const EvaluationFailed& failed) {
    std::rethrow_exception(failed.own);
  }
}

}  // namespace ddprun::trainer
