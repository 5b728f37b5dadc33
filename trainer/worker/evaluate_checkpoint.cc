#include "trainer/worker/evaluate_checkpoint.h"

#include <memory>

#include <ddprun/mesh.h>
#include "trainer/job/job.h"
#include "trainer/job/open_data.h"
#include "trainer/loop/evaluate.h"
#include "trainer/strategies/single.h"
#include "trainer/worker/saved_job.h"

namespace ddprun::trainer {

CheckpointEvaluation EvaluateCheckpoint(const Checkpoint& checkpoint,
                                        const std::vector<std::string>& files,
                                        const Environment& environment) {
  Job job = OpenSavedJob(checkpoint, environment);
  job.validation = OpenFurtherData(job, files);
  const std::shared_ptr<Model> model = OpenSavedModel(checkpoint, job);
  const Mesh alone;
  const auto strategy = MakeSingle(model, /*optimizer=*/nullptr, alone);
  CheckpointEvaluation found;
  found.report = Evaluate(
      job, alone, *strategy, *model, [] {}, [](double) { return false; });
  found.report.step = checkpoint.step();
  found.notes = job.validation->Notes();
  return found;
}

}  // namespace ddprun::trainer
