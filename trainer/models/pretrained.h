// Model folders as Hugging Face's from_pretrained reads and save_pretrained writes them:
// config.json, and model.safetensors or its shards with model.safetensors.index.json.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trainer/models/model.h"
#include "trainer/models/registry.h"

namespace ddprun::trainer {

// File names of a Hugging Face model folder.

inline constexpr const char* kConfigName = "config.json";
inline constexpr const char* kGenerationConfigName = "generation_config.json";
inline constexpr const char* kWeightsName = "model.safetensors";
inline constexpr const char* kIndexName = "model.safetensors.index.json";
inline constexpr const char* kPickleName = "pytorch_model.bin";
inline constexpr const char* kPickleIndexName = "pytorch_model.bin.index.json";

// Copies the weights in a folder, in a checkpoint of a run, or in one file (safetensors, or of
// torch.save), into the model's parameters. float16 and bfloat16 are converted. Returns the
// parameters that the files lack and that the model drew afresh (Model::MayStartFresh). Throws
// Failure, with all that is wrong in one message: tensors that are missing, that the model does not
// have, or of other shape.
std::vector<std::string> LoadWeights(Model& model, const std::string& path);

// Whether the path is a file, or a checkpoint of a run: weights without the description of a model.
bool HoldsWeightsAlone(const std::string& path);

// Throws as LoadWeights would, from the headers of the files alone. `model` may be a shape.
void CheckWeights(const Model& model, const std::string& path);

struct SaveOptions {
  // Folder that the model came from: its config.json is kept but for what the run changed, and the
  // files of its tokenizer are copied. Empty: none.
  std::string source = {};
  std::string tokenizer = {};            // folder of another tokenizer to copy; empty: none
  std::vector<std::string> labels = {};  // names of the classes, for models that know none
  std::map<std::string, std::string> files = {};  // to stand beside the weights: text by name
  int64_t max_shard_bytes = 5'000'000'000;        // larger models are written as several files
  // Whence the weights, one after the other, if `model` is a shape. Empty: its own.
  std::function<at::Tensor(const std::string& name)> read = {};
};

// Writes weights and config.json, and what the options add, into the folder, which takes the place
// of one that is there: after a crash it is whole, or as it was before. A folder in which anything
// is not as SavePretrained wrote it (base/owned_folder.h) is kept under another name, which is
// returned; "" where none was. Throws Failure.
std::string SavePretrained(const Model& model,
                           const std::string& folder,
                           const SaveOptions& options = {});

// What a folder's config.json describes: model_type "bert", "gpt2", "llama", or "mlp" as written
// by SavePretrained. Throws Failure when it is missing, or describes a model that MakeModel lacks.
ModelOptions ReadModelOptions(const std::string& folder);

// Its "rope_scaling", an object; {}: none. Throws Failure.
RopeScaling ReadRopeScaling(const std::string& json);

// Any of which ends a text that the folder's language model writes: eos_token_id, one or a list,
// of generation_config.json; where that is silent, of config.json. Empty: neither says. Throws
// Failure.
std::vector<int64_t> ReadStopTokens(const std::string& folder);

}  // namespace ddprun::trainer
