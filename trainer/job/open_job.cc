#include "trainer/job/open_job.h"

#include "base/failure.h"
#include "base/text.h"
#include "trainer/config/read_config.h"
#include "trainer/job/chosen_parameters.h"
#include "trainer/job/class_weights.h"
#include "trainer/job/estimate_memory.h"
#include "trainer/job/open_model.h"
#include "trainer/job/options_of.h"
#include "trainer/models/adapter_folder.h"
#include "trainer/models/lora.h"
#include "trainer/models/pretrained.h"
#include "trainer/models/torchscript.h"
#include "trainer/plugin/load_plugin.h"

namespace ddprun::trainer {

namespace {

void OpenLora(Job& job, const Attempt& attempt) {
  job.model_notes.push_back("LoRA freezes all but " + std::to_string(TrainedCount(*job.shape)) +
                            " of " + CountText(ParameterCount(*job.shape), "parameter"));
  const std::string& adapter = job.config.model.adapter;
  if (adapter.empty()) return;
  attempt([&] { CheckAdapter(*job.shape, TransformerIn(job.model)->lora, adapter); });
}

}  // namespace

void OpenParts(Job& job, const Attempt& attempt) {
  const bool has_model = attempt([&job] {
    job.model = OpenModel(job.config);
    // Loads the model's code once for all ranks, which are forked later.
    const ModelType type = job.config.model.type;
    const std::string& path = job.config.model.path;
    if (type == ModelType::kPlugin) LoadPlugin(path).RequireModel();
    if (type == ModelType::kTorchScript) job.model_notes = TorchScriptNotes(path);
  });
  OpenData(job, attempt);
  const bool has_data = job.train != nullptr;
  if (has_data) attempt([&job] { SettleClassWeights(*job.train, job.config.training); });
  const bool sized_by_data =
      job.config.model.type == ModelType::kCnn || job.config.model.type == ModelType::kLinear;
  if (!has_model || (!has_data && sized_by_data)) return;
  const bool fits = attempt([&job, has_data] {
    if (has_data) FitModelToData(job.train->shape(), job.config, job.model);
    job.shape = MakeModelShape(job.model);
  });
  const std::string& weights = job.config.model.name_or_path;
  if (fits && job.shape != nullptr && !weights.empty()) {
    attempt([&] { CheckWeights(*job.shape, weights); });
  }
  if (fits && job.shape != nullptr && HasLora(*job.shape)) OpenLora(job, attempt);
  if (fits && job.shape != nullptr) {
    attempt([&] { CheckFreeze(*job.shape, job.config.training.freeze); });
    attempt([&] { CheckParameterFactors(*job.shape, job.config.optimizer); });
  }
  if (has_data) attempt([&job] { job.largest_batch = LargestBatch(job); });
}

void RequireObserver(const Config& config) {
  if (!config.report.plugin.empty()) LoadPlugin(config.report.plugin).RequireObserver();
}

Job OpenJob(const std::string& config_path,
            const std::vector<std::string>& overrides,
            const Environment& environment) {
  Job job;
  job.config_path = config_path;
  job.config = ValueOrThrow(ReadConfig(config_path, overrides, environment));
  // Must come before any use of LibTorch's random numbers or gradients (OpenCudaModule).
  const bool named = !job.config.strategy.devices.empty();
  job.device = ChooseDevice(DeviceAskedFor(job.config), environment,
                            named ? "strategy.devices" : "run.device");
  RequireObserver(job.config);
  OpenParts(job, [](const auto& part) {
    part();
    return true;
  });
  return job;
}

}  // namespace ddprun::trainer
