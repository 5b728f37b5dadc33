// File names of a Hugging Face model folder.
#pragma once

namespace ddprun::trainer {

inline constexpr const char* kConfigName = "config.json";
inline constexpr const char* kGenerationConfigName = "generation_config.json";
inline constexpr const char* kWeightsName = "model.safetensors";
inline constexpr const char* kIndexName = "model.safetensors.index.json";

}  // namespace ddprun::trainer
