#include "trainer/worker/evaluate_saved.h"

#include <memory>

#include "trainer/job/open_data.h"
#include "trainer/worker/evaluate_whole.h"

namespace ddprun::trainer {

SavedEvaluation EvaluateSaved(const SavedJob& saved,
                              const std::vector<std::string>& files,
                              const Mesh& mesh) {
  const std::unique_ptr<Dataset> data = OpenFurtherData(saved.job, files);
  const std::shared_ptr<Model> model = saved.load(saved.job, mesh.device);
  SavedEvaluation found;
  found.report = EvaluateWhole(
      saved.job, *data, mesh, *model, [] {}, [] { return false; });
  found.report.step = saved.step;
  found.notes = data->Notes();
  return found;
}

}  // namespace ddprun::trainer
