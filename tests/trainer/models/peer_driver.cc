// peer_driver TYPE MODEL IN OUT LABEL_SMOOTHING: runs a model on the batch in the safetensors file
// IN (inputs, targets) and writes OUT: the outputs in evaluation, those in training, the loss in
// training, every gradient, and parameters and buffers as they are afterwards. MODEL is the file of
// its weights, or the folder of a transformer; it computes in the type of images that are inputs.
// For check_against_torch.py.
#include <cstdio>
#include <filesystem>
#include <string>

#include "base/failure.h"
#include "trainer/models/pretrained.h"
#include "trainer/state/safetensors.h"

namespace {

using namespace ddprun::trainer;
using ddprun::Batch;

ModelOptions OptionsFor(const std::string& type, const std::string& path, const Batch& batch) {
  if (std::filesystem::is_directory(path)) return ReadModelOptions(path);
  const std::vector<int64_t> image = batch.inputs.sizes().slice(1).vec();
  if (type == "cnn") {
    return CnnOptions{.image = image, .channels = {8, 12}, .hidden_size = 24, .num_labels = 10};
  }
  return ResNetOptions{.depth = std::stoll(type.substr(6)), .image = image, .num_labels = 10};
}

void Run(char** argv) {
  const SafetensorsFile in(argv[3]);
  Batch batch{.inputs = in.Get("inputs"), .targets = in.Get("targets")};
  batch.samples = batch.inputs.size(0);
  batch.predictions = (batch.targets != kIgnoredTarget).sum().item<int64_t>();
  const auto model =
      MakeModel(OptionsFor(argv[1], argv[2], batch), {.label_smoothing = std::stod(argv[5])});
  LoadWeights(*model, argv[2]);
  if (batch.inputs.is_floating_point()) model->to(batch.inputs.scalar_type());
  model->eval();
  NamedTensors results = {{"evaluation", model->Outputs(batch).detach()}};
  model->train();
  const at::Tensor outputs = model->Outputs(batch);
  results.emplace_back("training", outputs.detach());
  results.emplace_back("loss_from", model->LossFrom(outputs, batch).detach());
  for (const auto& stored : model->State()) {
    results.emplace_back("state." + stored.key(), stored.value().detach().clone());
  }
  const at::Tensor loss = model->Loss(batch);
  loss.backward();
  results.emplace_back("loss", loss.detach());
  for (const auto& parameter : model->named_parameters()) {
    results.emplace_back("grad." + parameter.key(), parameter.value().grad());
  }
  WriteSafetensors(argv[4], results);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fputs("usage: peer_driver TYPE MODEL IN OUT LABEL_SMOOTHING\n", stderr);
    return 2;
  }
  try {
    Run(argv);
    return 0;
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return 1;
  }
}
