#include "trainer/worker/saved_job.h"

#include <ATen/core/grad_mode.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "trainer/config/read_config.h"
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

at::Tensor ReadModel(const Checkpoint& checkpoint, const std::string& name, int64_t dimensions) {
  const at::Tensor stored = checkpoint.Read("model." + name);
  return stored.dim() == dimensions + 1 ? stored[0] : stored;
}

void LoadModel(const Checkpoint& checkpoint, Model& model) {
  const at::NoGradGuard no_grad;
  for (auto& item : model.State()) {
    item.value().copy_(ReadModel(checkpoint, item.key(), item.value().dim()));
  }
}

}  // namespace ddprun::trainer
