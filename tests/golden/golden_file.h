// Reads the files beside this one (README.md says how they are made).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace ddprun::trainer::golden {

inline std::string Path(const std::string& name) {
  return std::string(DDPRUN_SOURCE_DIR) + "/tests/golden/" + name;
}

inline nlohmann::json Read(const std::string& name) {
  std::ifstream file(Path(name));
  if (!file) throw std::runtime_error("cannot read " + Path(name));
  return nlohmann::json::parse(file);
}

// Returns a part of the file: a loop over Read(name).at(key) would outlive the file's value.
inline nlohmann::json Read(const std::string& name, const char* key) {
  return Read(name).at(key);
}

// A float32 tensor from nested lists.
inline at::Tensor FloatTensor(const nlohmann::json& lists) {
  std::vector<int64_t> shape;
  for (const nlohmann::json* level = &lists; level->is_array(); level = &level->at(0)) {
    shape.push_back(static_cast<int64_t>(level->size()));
  }
  at::Tensor tensor = at::empty(shape, at::kFloat);
  auto* out = tensor.mutable_data_ptr<float>();
  const auto fill = [&](const auto& self, const nlohmann::json& level) -> void {
    if (!level.is_array()) {
      *out++ = level.get<float>();
      return;
    }
    for (const nlohmann::json& item : level) self(self, item);
  };
  fill(fill, lists);
  return tensor;
}

}  // namespace ddprun::trainer::golden
