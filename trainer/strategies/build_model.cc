#include "trainer/strategies/build_model.h"

#include <utility>

#include "trainer/compute/device.h"
#include "trainer/job/chosen_parameters.h"
#include "trainer/models/adapter_folder.h"
#include "trainer/models/pretrained.h"
#include "trainer/parallel/whole_state.h"
#include "trainer/strategies/strategy_parts.h"

namespace ddprun::trainer {

std::shared_ptr<Model> BuildModel(const Job& job,
                                  bool owns_weights,
                                  c10::Device device,
                                  std::vector<std::string>* fresh_parameters) {
  const Config& config = job.config;
  const bool pretrained = !config.model.name_or_path.empty();
  SeedGenerators(device, static_cast<uint64_t>(config.run.seed));
  std::shared_ptr<Model> model =
      MakeModel(job.model, {config.training.loss, config.training.label_smoothing},
                /*initialize=*/owns_weights && !pretrained, device);
  if (config.training.gradient_checkpointing) RecomputeBlocks(*model);
  if (owns_weights) {  // of code of the user's own, too
    CheckFreeze(*model, config.training.freeze);
    CheckParameterFactors(*model, config.optimizer);
  }
  Freeze(*model, config.training.freeze);
  if (!owns_weights || !pretrained) return model;
  std::vector<std::string> fresh = LoadWeights(*model, config.model.name_or_path);
  if (!config.model.adapter.empty()) {
    LoadAdapter(*model, TransformerIn(job.model)->lora, config.model.adapter);
  }
  if (fresh_parameters != nullptr) *fresh_parameters = std::move(fresh);
  return model;
}

void HandOutModel(const Model* whole, const Model& part, const Mesh& mesh) {
  const StateDict parts = SaveState([&](StateVisitor& visitor) {
    BeginSection("", {}, mesh, visitor);
    for (const auto& item : part.State()) {
      visitor.Tensor(item.key(), item.value(), part.PlacementOf(item.key()));
    }
  });
  torch::OrderedDict<std::string, at::Tensor> state;
  if (whole != nullptr) state = whole->State();
  DistributeWhole(parts, mesh.control.get(), [&](const std::string& name) { return state[name]; });
}

std::shared_ptr<Model> GatherModel(const Job& job, Strategy& strategy, const Mesh& mesh) {
  std::shared_ptr<Model> whole;
  torch::OrderedDict<std::string, at::Tensor> tensors;
  if (mesh.world.rank == 0) {
    whole = MakeModel(job.model, {}, /*initialize=*/false);
    tensors = whole->State();
  }
  const std::string prefix = "model.";
  GatherWhole(strategy.State(), prefix, mesh.control.get(),
              [&](const std::string& name, const at::Tensor& tensor) {
                tensors[name.substr(prefix.size())].copy_(tensor);
              });
  return whole;
}

}  // namespace ddprun::trainer
