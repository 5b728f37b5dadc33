#include "trainer/worker/evaluate_whole.h"

#include <exception>
#include <memory>

#include "base/failure.h"
#include "trainer/evaluation/evaluate.h"
#include "trainer/strategies/single.h"

namespace ddprun::trainer {

EvalReport EvaluateWhole(const Job& job,
                         const Dataset& data,
                         const Mesh& mesh,
                         Model& model,
                         const std::function<void()>& before_batch,
                         const std::function<bool()>& stops) {
  Mesh of_model = mesh;
  of_model.device = model.parameters().front().device();
  const std::shared_ptr<Model> not_owned(std::shared_ptr<Model>(), &model);
  const auto strategy = MakeSingle(not_owned, /*optimizer=*/nullptr, of_model);
  try {
    return EvaluateOn(data, job, of_model, *strategy, model, before_batch,
                      [&stops](double) { return stops(); });
  } catch (const EvaluationFailed& failed) {
    if (failed.own != nullptr) std::rethrow_exception(failed.own);
    throw Failure(Error{.title = "ANOTHER RANK FAILED",
                        .where = "rank " + std::to_string(mesh.world.rank),
                        .what = "Another rank could not evaluate its samples.",
                        .hint = "Look at the output of that rank.",
                        .page = "rank-lost"});
  }
}

}  // namespace ddprun::trainer
