// Model folders as Hugging Face's from_pretrained reads and save_pretrained writes them:
// config.json and model.safetensors.
#pragma once

#include <string>

#include "trainer/models/model.h"
#include "trainer/models/registry.h"

namespace ddprun::trainer {

// Copies a safetensors file into the model's parameters; `path` may be a folder with a
// model.safetensors. float16 and bfloat16 weights are converted. Throws Failure, with all that is
// wrong in one message: tensors that are missing, that the model does not have, or of other shape.
void LoadWeights(Model& model, const std::string& path);

// Writes model.safetensors and config.json into the folder, which is made if need be. Each file is
// written whole or not at all. Throws Failure.
void SavePretrained(const Model& model, const std::string& folder);

// The sizes in a folder's config.json (model_type "gpt2", or "mlp" as written by SavePretrained).
// Throws Failure when it is missing or describes a model that MakeModel does not have.
ModelOptions ReadModelOptions(const std::string& folder);

}  // namespace ddprun::trainer
