// Folders of peft with the matrices of LoRA: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <string>

#include "trainer/models/model.h"
#include "trainer/models/registry.h"

namespace ddprun::trainer {

// Writes the folder for peft.PeftModel.from_pretrained. `base`: the folder of the frozen weights,
// which peft needs, too. Replaces a folder as SavePretrained() does. Returns the folder's name, and
// if one of before was kept, also that one's. Throws Failure.
std::string SaveAdapter(const Model& model,
                        const ModelOptions& options,
                        const std::string& base,
                        const std::string& folder);

// Copies the folder's tensors into the model. Throws Failure, which lists all differences, if the
// folder is of another model or of other options.
void LoadAdapter(Model& model, const LoraOptions& options, const std::string& folder);
// Throws the errors of LoadAdapter(), but reads only headers of files. `model` may be a shape.
void CheckAdapter(const Model& model, const LoraOptions& options, const std::string& folder);

}  // namespace ddprun::trainer
