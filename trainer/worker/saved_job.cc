#include "trainer/worker/saved_job.h"

#include <ATen/core/grad_mode.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "trainer/checkpoint/model_weights.h"
#include "trainer/config/read_config.h"
#include "trainer/job/open_data.h"
#include "trainer/job/open_job.h"
#include "trainer/job/open_model.h"
#include "trainer/job/run_text.h"

namespace ddprun::trainer {

Config ConfigOf(const Checkpoint& checkpoint, const Environment& environment) {
  const nlohmann::json run = ReadRunText(checkpoint.run());
  if (!run.contains("config")) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "NO CONFIG IN THE CHECKPOINT",
                        .where = checkpoint.path(),
                        .what = "\"" + checkpoint.path() +
                                "\" does not say which model it is of: it was "
                                "not saved by ddp-trainer.",
                        .hint = "Export it to a file of tensors: --to=weights.safetensors.",
                        .page = "no-config-in-the-checkpoint"});
  }
  const std::string here = std::filesystem::current_path().string();
  return ValueOrThrow(ReadConfigText({.label = checkpoint.path(), .text = run["config"].dump()}, {},
                                     {environment, here, here}));
}

SavedJob OpenSavedJob(std::shared_ptr<const Checkpoint> checkpoint,
                      const Environment& environment) {
  SavedJob saved{.path = checkpoint->path(), .step = checkpoint->step()};
  saved.load = [checkpoint](const Job& job, c10::Device device) {
    std::shared_ptr<Model> model = EmptyModel(job, device);
    LoadModel(*checkpoint, *model);
    return model;
  };
  Job& job = saved.job;
  job.config_path = checkpoint->path();
  job.config = ConfigOf(*checkpoint, environment);
  // The run's own files may be gone.
  job.config.data.validation_files.clear();
  job.config.data.test_files.clear();
  const nlohmann::json run = ReadRunText(checkpoint->run());
  if (run.contains("data")) {
    job.model = OpenModel(job.config);
    job.train = OpenDescribedData(job.config, run["data"]);
    FitModelToData(job.train->shape(), job.config, job.model);
    return saved;
  }
  OpenParts(job, [](const auto& part) {
    part();
    return true;
  });
  return saved;
}

std::shared_ptr<Model> EmptyModel(const Job& job, c10::Device device) {
  const LossOptions loss{job.config.training.loss, job.config.training.label_smoothing};
  return MakeModel(job.model, loss, /*initialize=*/false, device);
}

at::Tensor ReadModel(const Checkpoint& checkpoint, const std::string& name, int64_t dimensions) {
  const at::Tensor stored = checkpoint.Read(WeightsIn(checkpoint, "model." + name));
  return stored.dim() == dimensions + 1 ? stored[0] : stored;
}

void LoadModel(const Checkpoint& checkpoint, Model& model) {
  const at::NoGradGuard no_grad;
  for (auto& item : model.State()) {
    item.value().copy_(ReadModel(checkpoint, item.key(), item.value().dim()));
  }
}

}  // namespace ddprun::trainer
