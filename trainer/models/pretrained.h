// Model folders that Hugging Face's from_pretrained reads and save_pretrained writes: config.json,
// and model.safetensors or its shards with model.safetensors.index.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainer/models/lora.h"
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

// Copies weights into the model's parameters, from a folder, a checkpoint of a run, or one file
// (safetensors, or of torch.save). Converts float16 and bfloat16. Returns the parameters that the
// files lack, which keep their new values (Model::MayBeMissingInFile).
//
// Throws Failure, which lists all errors: missing tensors, unknown tensors, and other shapes.
std::vector<std::string> LoadWeights(Model& model, const std::string& path);

// Returns whether the path is a file or a checkpoint of a run, which have weights but do not
// describe a model.
bool HasOnlyWeights(const std::string& path);

// Throws the errors of LoadWeights(), but reads only headers of files. `model` may be a shape.
void CheckWeights(const Model& model, const std::string& path);

struct SaveOptions {
  // The folder that the model was loaded from. Its config.json is kept except for values that the
  // run changed, and generation_config.json is copied. Empty: none.
  std::string source = {};
  std::string tokenizer = {};  // tokenizer to copy, as LoadTokenizer() takes it; empty: of `source`
  std::vector<std::string> labels = {};           // names of the classes, for models without any
  std::map<std::string, std::string> files = {};  // further files, text by name
  int64_t max_shard_bytes = 5'000'000'000;        // larger models get several files
  // If `model` is a shape, returns the weights, one after the other. Empty: uses the model's own.
  ReadTensor read = {};
};

// Writes weights, config.json and the options' files into the folder, which replaces an existing
// one: after a crash it is complete, or as before. A folder with files that SavePretrained() did
// not write (base/owned_folder.h) is kept under another name. Returns this name, or "" if there was
// none. Throws Failure.
std::string SavePretrained(const Model& model,
                           const std::string& folder,
                           const SaveOptions& options = {});

// Returns the options that a folder's config.json describes: model_type "bert", "gpt2", "llama", or
// "mlp" as written by SavePretrained(). Throws Failure if the file is missing, or describes a model
// that MakeModel() does not have.
ModelOptions ReadModelOptions(const std::string& folder);

// Reads the object "rope_scaling" of config.json; {} means none. Throws Failure.
RopeScaling ReadRopeScaling(const std::string& json);

// Returns the tokens of which each ends a text of the folder's language model: eos_token_id, one or
// a list, of generation_config.json, else of config.json, else transformers' default for the type
// of model. Throws Failure.
std::vector<int64_t> ReadStopTokens(const std::string& folder);

}  // namespace ddprun::trainer
