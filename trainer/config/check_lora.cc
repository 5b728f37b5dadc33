#include <string>
#include <string_view>

#include "trainer/config/checker.h"
#include "trainer/config/keys.h"

namespace ddprun::trainer {

void CheckLora(Checker& check) {
  const Config& config = check.config;
  if (config.training.lora_r > 0) {
    // Weights that are drawn and then frozen would be worth nothing.
    if (config.model.name_or_path.empty()) check.Missing("model.name_or_path", "training.lora_r");
    return;
  }
  for (const std::string_view path :
       {"training.lora_alpha", "training.lora_dropout", "training.lora_target_modules",
        "training.use_rslora", "model.adapter"}) {
    if (IsDefault(GetKey(path), config)) continue;
    check.Conflict(path, std::string(path) + " is for LoRA, but training.lora_r is 0:",
                   "Set training.lora_r, such as to 8, or remove the key.");
  }
}

}  // namespace ddprun::trainer
