#include "trainer/worker/check_job.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "base/failure.h"
#include "base/last_words.h"
#include "base/text.h"
#include "trainer/config/config_text.h"
#include "trainer/config/read_config.h"
#include "trainer/config/slot.h"
#include "trainer/data/data_files.h"
#include "trainer/job/estimate_memory.h"
#include "trainer/job/open_job.h"
#include "trainer/job/open_model.h"
#include "trainer/job/options_of.h"
#include "trainer/job/plan_job.h"
#include "trainer/job/step_plan.h"
#include "trainer/models/pretrained.h"
#include "trainer/report/format.h"
#include "trainer/text/tokenizer.h"
#include "trainer/worker/resume.h"

namespace ddprun::trainer {

namespace {

constexpr double kWholeBytes = 16 << 20;
constexpr int64_t kUnknownSizeSamples = 100;  // of a plugin's data set without files
constexpr size_t kMostProblems = 5;           // of one data set

bool Collect(CheckedJob& found, const std::function<void()>& part) {
  try {
    part();
    return true;
  } catch (...) {
    found.problems.push_back(CurrentError());
    return false;
  }
}

// Returns the samples to read: about kWholeBytes of `bytes`, half of them from the head.
std::vector<int64_t> Chosen(int64_t size, double bytes) {
  int64_t count = size;
  if (bytes > kWholeBytes) {
    count =
        std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(size) * kWholeBytes / bytes));
  }
  std::vector<int64_t> chosen;
  const int64_t head = count == size ? size : (count + 1) / 2;
  for (int64_t i = 0; i < head; ++i) chosen.push_back(i);
  const int64_t spread = count - head;
  for (int64_t i = 0; i < spread; ++i) chosen.push_back(head + i * (size - head) / spread);
  return chosen;
}

void ReadSamples(const Dataset& data, const std::string& which, CheckedJob& found) {
  const std::string total = "data: " + CountText(data.size(), which + " sample");
  std::vector<int64_t> samples;
  if (!data.in_memory()) {
    double bytes = 0;
    std::error_code error;
    const std::vector<std::string> files = data.Files();
    for (const std::string& file : files) {
      bytes += static_cast<double>(std::filesystem::file_size(file, error));
    }
    samples = Chosen(data.size(), bytes);
    if (files.empty()) {
      samples.resize(std::min<size_t>(samples.size(), size_t{kUnknownSizeSamples}));
    }
  }
  size_t broken = 0;
  for (const int64_t sample : samples) {
    const bool read = Collect(found, [&] { data.Get({&sample, 1}); });
    if (!read && ++broken == kMostProblems) break;
  }
  const bool all = data.in_memory() || static_cast<int64_t>(samples.size()) == data.size();
  found.facts.push_back(total + (all ? ", all read"
                                     : "; read: " + std::to_string(samples.size()) +
                                           ", the first ones and others spread over the rest"));
}

std::string MemoryFact(const Job& job, const RankInfo& rank) {
  const MemoryEstimate estimate = EstimateMemory(job, rank.world_size, rank.local_world_size);
  std::string text = "memory: " + MemoryText(estimate) + ": parameters " +
                     ByteText(estimate.parameters) + ", gradients " + ByteText(estimate.gradients) +
                     ", optimizer " + ByteText(estimate.optimizer);
  if (estimate.checkpoint > 0) text += ", checkpoint " + ByteText(estimate.checkpoint);
  if (estimate.complete) text += ", activations " + ByteText(estimate.activations);
  text += ", batches " + ByteText(estimate.batches);
  if (!estimate.complete) {
    text += "; what the code of a " + TypeOf(job.model) + " model takes besides is not known";
  }
  return text;
}

}  // namespace

// Checks the files that a config with errors names, because they do not depend on the errors.
void JobChecker::CheckNamedFiles(const Config& config, CheckedJob& found) const {
  for (const auto* files :
       {&config.data.train_files, &config.data.validation_files, &config.data.test_files}) {
    if (config.data.format == DataFormat::kImageFolder) break;
    Collect(found, [&] { ExpandFiles(*files); });
  }
  if (!config.data.tokenizer.empty()) {
    Collect(found, [&] { LoadTokenizer(config.data.tokenizer); });
  }
  if (IsTransformer(config.model.type) && !config.model.name_or_path.empty()) {
    Collect(found, [&] { ReadModelOptions(config.model.name_or_path); });
  }
}

// Finds out whether the GPUs that the config asks for are there. This process forks no rank later.
void JobChecker::CheckDevice(const Config& config, CheckedJob& found) const {
  const std::string device = DeviceAskedFor(config);
  if (!device.starts_with("cuda")) return;
  Collect(found, [&] {
    const bool named = !config.strategy.devices.empty();
    const std::string key = named ? "strategy.devices" : "run.device";
    const CudaModule* module = ChooseDevice(device, environment_, key).module;
    if (named || device != "cuda") {
      const auto devices =
          named ? DevicesOf(config.strategy) : std::vector<c10::Device>{c10::Device(device)};
      return ThrowIfError(CheckDevices(module, devices, key));
    }
    // A process sees one instance of a GPU (MIG), and --virtual_local_rank gives each rank its
    // own.
    const std::string visible = environment_.GetOr("CUDA_VISIBLE_DEVICES", "");
    const bool split = visible.find("MIG-") != std::string::npos;
    ValueOrThrow(DeviceOf(*module, split ? 0 : rank_.local_world_size - 1));
  });
}

void JobChecker::Open(const Config& config) {
  job_ = Job();
  opened_ = CheckedJob();
  job_.config_path = path_;
  job_.config = config;
  Collect(opened_, [&config] { RequireObserver(config); });
  OpenParts(job_, [this](const auto& part) { return Collect(opened_, part); });
  if (job_.shape != nullptr) {
    opened_.facts.push_back("model: " + std::string(Word(job_.config.model.type)) + ", " +
                            CountText(ParameterCount(*job_.shape), "parameter"));
  }
  if (job_.train != nullptr) ReadSamples(*job_.train, "training", opened_);
  if (job_.validation != nullptr) ReadSamples(*job_.validation, "validation", opened_);
  for (const std::string& note : job_.data_notes) opened_.facts.push_back("data: " + note);
}

// Checks the job against its ranks, the memory, the disk, and the run that it resumes.
void JobChecker::CheckTogether(CheckedJob& found) {
  StepPlan plan;
  std::vector<std::string> changes;
  RunStart start;
  Collect(found, [&] { start = FindRunStart(job_.config, environment_); });
  const bool planned = Collect(found, [&] { plan = PlanFor(job_, rank_.world_size); });
  if (start.checkpoint && planned) {
    Collect(found, [&] { changes = CompareRuns(*start.checkpoint, job_, plan); });
  }
  if (job_.train != nullptr) {
    Collect(found,
            [&] { CheckLossOfData(job_.train->shape(), job_.config.training.loss, job_.model); });
  }
  const ModelType type = job_.config.model.type;
  if (job_.shape != nullptr || type == ModelType::kTorchScript || type == ModelType::kPlugin) {
    Collect(found, [&] { CheckMemory(job_, rank_); });
    Collect(found, [&] { CheckDisk(job_); });
    found.facts.push_back(MemoryFact(job_, rank_));
  }
  if (job_.shape != nullptr && job_.config.checkpoint.save_at_end) {
    found.facts.push_back("disk: " + ByteText(static_cast<double>(StateBytes(*job_.shape))) +
                          " of weights at the end");
  }
  if (!found.problems.empty()) return;
  found.facts.push_back("steps: " + std::to_string(plan.total_steps));
  found.warnings = WarningsOf(job_, plan);
  found.warnings.insert(found.warnings.end(), changes.begin(), changes.end());
}

CheckedJob JobChecker::Check(const std::vector<std::string>& overrides) {
  CheckedJob found;
  Config refused;
  Result<Config> config = ReadConfig(path_, overrides, environment_, &refused);
  if (!config) {
    found.problems.push_back(config.error());
    CheckNamedFiles(refused, found);
    return found;
  }
  Config opened_from;
  opened_from.model = config->model;
  opened_from.data = config->data;
  const std::string sections = WriteResolvedConfig(opened_from);
  if (sections != sections_) {
    sections_ = sections;
    Open(*config);
  } else {
    const ModelConfig model = job_.config.model;  // with the values of its folder
    job_.config = *config;
    job_.config.model = model;
  }
  found = opened_;
  CheckDevice(*config, found);
  if (job_.train == nullptr) return found;
  Collect(found, [&] { job_.largest_batch = LargestBatch(job_); });
  CheckTogether(found);
  return found;
}

}  // namespace ddprun::trainer
