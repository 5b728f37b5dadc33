#include "trainer/worker/evaluate_checkpoint.h"

#include <memory>

#include "trainer/job/job.h"
#include "trainer/job/open_data.h"
#include "trainer/worker/evaluate_alone.h"
#include "trainer/worker/saved_job.h"

namespace ddprun::trainer {

CheckpointEvaluation EvaluateCheckpoint(const Checkpoint& checkpoint,
                                        const std::vector<std::string>& files,
                                        const Environment& environment) {
  const Job job = OpenSavedJob(checkpoint, environment);
  const std::unique_ptr<Dataset> data = OpenFurtherData(job, files);
  const std::shared_ptr<Model> model = OpenSavedModel(checkpoint, job);
  CheckpointEvaluation found;
  found.report = EvaluateAlone(
      job, *data, *model, [] {}, [] { return false; });
  found.report.step = checkpoint.step();
  found.notes = data->Notes();
  return found;
}

}  // namespace ddprun::trainer
