#include "trainer/worker/export_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "base/owned_folder.h"
#include "trainer/checkpoint/model_weights.h"
#include "trainer/job/job.h"
#include "trainer/job/open_job.h"
#include "trainer/job/run_text.h"
#include "trainer/models/lora.h"
#include "trainer/models/pretrained.h"
#include "trainer/state/torch_file.h"
#include "trainer/worker/saved_job.h"

namespace ddprun::trainer {

namespace {

Failure NotMerged(const std::string& path) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "WEIGHTS ARE NOT MERGED",
                       .where = path,
                       .what = "The checkpoint has the frozen weights and the matrices of LoRA. "
                               "A file of both under\nthe model's names would be taken for the "
                               "model without LoRA.",
                       .hint = "Export a folder, which has the merged weights: --to=FOLDER. Or all "
                               "tensors: --all.",
                       .page = "weights-are-not-merged"});
}

// Returns the tensors that `what` names, in the order of the checkpoint.
std::vector<LazyTensor> TensorsOf(const Checkpoint& checkpoint, Exported what) {
  std::vector<LazyTensor> tensors;
  const auto add = [&](const std::string& name, const CheckpointTensor& tensor) {
    const bool is_model = name.starts_with(kModelPrefix);
    if (what == Exported::kModel && !is_model) return;
    const std::string stored = what == Exported::kAll ? name : WeightsIn(checkpoint, name);
    tensors.push_back({.name = what == Exported::kAll ? name : name.substr(kModelPrefix.size()),
                       .dtype = tensor.dtype,
                       .shape = tensor.shape,
                       .read = [&checkpoint, stored] { return checkpoint.Read(stored); }});
  };
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (what == Exported::kModel && IsLora(name)) throw NotMerged(checkpoint.path());
    add(name, tensor);
  }
  for (const auto& [name, owner] : checkpoint.aliases()) {
    const size_t before = tensors.size();
    add(name, checkpoint.tensors().at(owner));
    if (tensors.size() == before) continue;
    tensors.back().same_as = what == Exported::kAll ? owner : owner.substr(kModelPrefix.size());
  }
  return tensors;
}

// Adds the head of a model whose head is its embedding. A checkpoint does not name such a head, but
// state dicts of PyTorch and transformers do, with the storage of the embedding.
void AddTiedHead(const Checkpoint& checkpoint, std::vector<LazyTensor>& tensors) {
  const nlohmann::json run = ReadRunText(checkpoint.run());
  const TiedHead names =
      TiedHeadOf(run.value(nlohmann::json::json_pointer("/config/model/type"), ""));
  const auto find = [&](std::string_view name) {
    return std::ranges::find(tensors, name, &LazyTensor::name);
  };
  if (find(names.embedding) == tensors.end() || find(names.head) != tensors.end()) return;
  LazyTensor tied = *find(names.embedding);
  tied.name = names.head;
  if (tied.same_as.empty()) tied.same_as = names.embedding;
  tensors.push_back(std::move(tied));
}

}  // namespace

std::optional<Error> ExportFolder(const Checkpoint& checkpoint,
                                  const std::string& folder,
                                  const Environment& environment) {
  ThrowIfError(CheckOnlyOwnEntries(folder, IsListed));
  Job job;
  job.config_path = checkpoint.path();
  job.config = ConfigOf(checkpoint, environment);
  const ModelConfig& model = job.config.model;
  std::optional<Error> missing;
  OpenParts(job, [&missing](const auto& part) {
    try {
      part();
      return true;
    } catch (const Failure& failure) {
      if (!missing) missing = failure.error();
      return false;
    }
  });
  const bool own_code = model.type == ModelType::kPlugin || model.type == ModelType::kTorchScript;
  if (job.shape == nullptr && (!own_code || missing)) throw Failure(*std::move(missing));
  SaveOptions options{.tokenizer = job.config.data.tokenizer, .files = job.model_files};
  if (std::filesystem::is_directory(model.name_or_path)) options.source = model.name_or_path;
  if (job.train != nullptr) options.labels = job.train->shape().labels;
  if (job.shape == nullptr) {
    const auto whole = MakeModel(job.model);
    LoadModel(checkpoint, *whole);
    SavePretrained(*whole, folder, options);
    return missing;
  }
  options.read = [&checkpoint, shapes = job.shape->State()](const std::string& name) {
    return ReadModel(checkpoint, name, shapes[name].dim());
  };
  SavePretrained(*job.shape, folder, options);
  return missing;
}

void ExportTorchFile(const Checkpoint& checkpoint, const std::string& path, Exported what) {
  std::map<std::string, PickledValue> numbers;
  if (what == Exported::kAll) {
    numbers.insert(checkpoint.numbers().begin(), checkpoint.numbers().end());
  }
  std::vector<LazyTensor> tensors = TensorsOf(checkpoint, what);
  if (what == Exported::kModel) AddTiedHead(checkpoint, tensors);
  WriteTorchFile(path, tensors, numbers);
}

void ExportSafetensors(const Checkpoint& checkpoint, const std::string& path, Exported what) {
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  std::vector<LazyTensor> tensors = TensorsOf(checkpoint, what);
  std::erase_if(tensors, [&](const LazyTensor& tensor) {
    if (!tensor.same_as.empty()) metadata["alias." + tensor.name] = tensor.same_as;
    return !tensor.same_as.empty();
  });
  for (const auto& [name, number] : checkpoint.numbers()) {
    if (what == Exported::kAll) metadata[name] = std::to_string(number);
  }
  WriteSafetensors(path, std::move(tensors), metadata);
}

}  // namespace ddprun::trainer
