#include "trainer/worker/evaluate_saved.h"

#include <memory>

#include "trainer/job/open_data.h"
#include "trainer/worker/evaluate_alone.h"

namespace ddprun::trainer {

SavedEvaluation EvaluateSaved(const SavedJob& saved, const std::vector<std::string>& files) {
  const std::unique_ptr<Dataset> data = OpenFurtherData(saved.job, files);
  const std::shared_ptr<Model> model = saved.load(saved.job);
  SavedEvaluation found;
  found.report = EvaluateAlone(
      saved.job, *data, *model, [] {}, [] { return false; });
  found.report.step = saved.step;
  found.notes = data->Notes();
  return found;
}

}  // namespace ddprun::trainer
