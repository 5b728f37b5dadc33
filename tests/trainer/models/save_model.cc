// save_model SOURCE TARGET MAX_SHARD_BYTES: reads the model folder SOURCE, or makes the model of
// the config file SOURCE with noise on all weights, so that each of them shows. Writes it to
// TARGET, and prints as JSON the outputs for a fixed input and which parameters were drawn afresh.
// For check_saved_model.py.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn_like.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "trainer/config/read_config.h"
#include "trainer/job/options_of.h"
#include "trainer/models/generate.h"
#include "trainer/models/pretrained.h"

namespace {

using namespace ddprun::trainer;
using ddprun::Batch;

std::shared_ptr<Model> ReadModel(const char* folder, nlohmann::json& result) {
  std::shared_ptr<Model> model = MakeModel(ReadModelOptions(folder), {}, /*initialize=*/false);
  result["fresh"] = LoadWeights(*model, folder);
  return model;
}

std::shared_ptr<Model> ModelOfConfig(const char* path) {
  const ddprun::Result<Config> config = ReadConfig(path, {}, {});
  if (!config.has_value()) throw ddprun::Failure(config.error());
  at::manual_seed(3);
  std::shared_ptr<Model> model = MakeModel(ModelOptionsOf(config->model));
  for (at::Tensor& parameter : model->parameters()) {
    parameter.add_(at::randn_like(parameter), 0.1);
  }
  return model;
}

int Run(char** argv) {
  const at::NoGradGuard no_grad;
  nlohmann::json result = {{"fresh", nlohmann::json::array()}};
  const bool from_folder = std::filesystem::is_directory(argv[1]);
  const auto model = from_folder ? ReadModel(argv[1], result) : ModelOfConfig(argv[1]);
  SavePretrained(*model, argv[2],
                 {.source = from_folder ? argv[1] : "", .max_shard_bytes = std::stoll(argv[3])});
  model->eval();
  Batch batch;
  batch.inputs = at::arange(2 * 12, at::kLong).view({2, 12}) * 3 + 1;
  const at::Tensor outputs = model->Outputs(batch).contiguous();
  const auto* data = outputs.const_data_ptr<float>();
  result["outputs"] = std::vector<float>(data, data + outputs.numel());
  if (auto* language_model = dynamic_cast<LanguageModel*>(model.get())) {
    const std::vector<int64_t> prompt = {5, 6, 7};
    result["greedy"] = GenerateTokens(*language_model, prompt, 32, {.temperature = 0});
  }
  std::cout << result << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: save_model SOURCE TARGET MAX_SHARD_BYTES\n", stderr);
    return 2;
  }
  try {
    return Run(argv);
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return 1;
  }
}
