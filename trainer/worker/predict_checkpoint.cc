#include "trainer/worker/predict_checkpoint.h"

#include <ATen/core/grad_mode.h>

#include <memory>
#include <numeric>

#include "base/failure.h"
#include "trainer/compute/precision.h"
#include "trainer/data/loader.h"
#include "trainer/job/open_data.h"
#include "trainer/job/options_of.h"
#include "trainer/worker/saved_job.h"

namespace ddprun::trainer {

int64_t PredictCheckpoint(const Checkpoint& checkpoint,
                          const std::vector<std::string>& files,
                          PredictionFormat format,
                          const Environment& environment,
                          const std::function<void(const std::string& text)>& write) {
  const Job job = OpenSavedJob(checkpoint, environment);
  const std::unique_ptr<Dataset> data = OpenFurtherData(job, files, Targets::kNone);
  if (data->tokens_per_sample() > 0) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "DATA AND MODEL DO NOT FIT",
                        .where = checkpoint.path(),
                        .what = "\"" + checkpoint.path() +
                                "\" is of a language model, whose predictions are the next tokens.",
                        .hint = "ddp-trainer generate writes text with it, and ddp-trainer "
                                "evaluate computes its loss.",
                        .page = "data-and-model"});
  }
  const std::shared_ptr<Model> model = OpenSavedModel(checkpoint, job);
  model->eval();
  const at::NoGradGuard no_grad;
  const PrecisionScope precision(job.config.training.precision);
  const bool of_images = job.config.data.format == DataFormat::kImageFolder;
  PredictionText text(format, job.train->shape().labels, job.train->shape().classes > 0,
                      of_images ? data->Files() : std::vector<std::string>());
  std::vector<int64_t> rows(static_cast<size_t>(data->size()));
  std::iota(rows.begin(), rows.end(), 0);
  Loader loader(*data, std::move(rows), ValidationLoaderOptions(job.config));
  while (const std::optional<Batch> batch = loader.Next()) write(text.Next(model->Outputs(*batch)));
  return data->size();
}

}  // namespace ddprun::trainer
