// save_model SOURCE TARGET MAX_SHARD_BYTES: reads the model folder SOURCE, writes it to TARGET, and
// prints as JSON the outputs for a fixed input and which parameters were drawn afresh. For
// check_saved_model.py.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>

#include <cstdio>
#include <iostream>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "trainer/models/generate.h"
#include "trainer/models/pretrained.h"

namespace {

using namespace ddprun::trainer;

int Run(char** argv) {
  const at::NoGradGuard no_grad;
  ModelOptions options = ReadModelOptions(argv[1]);
  options.initialize = false;
  const auto model = MakeModel(options);
  nlohmann::json result;
  result["fresh"] = LoadWeights(*model, argv[1]);
  SavePretrained(*model, argv[2], {.source = argv[1], .max_shard_bytes = std::stoll(argv[3])});
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
