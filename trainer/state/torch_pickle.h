// The part of Python's pickle that torch.save needs for a state dict: dicts, lists, numbers, texts
// and tensors. Nothing is executed: a pickle that names any other class or function is refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace ddprun::trainer {

// A tensor as a view of a storage, which stands beside the pickle. Counts are of elements.
struct PickledTensor {
  std::string storage;       // its name
  std::string storage_type;  // "FloatStorage"
  int64_t storage_size = 0;
  int64_t offset = 0;
  std::vector<int64_t> shape = {};
  std::vector<int64_t> strides = {};

  bool operator==(const PickledTensor&) const = default;
};

using PickledValue = std::variant<PickledTensor, int64_t, double, bool, std::string>;

// Containers within others are told by dotted names: "model.fc.weight", "param_groups.0.lr".
struct PickledState {
  std::vector<std::pair<std::string, PickledValue>> values;
  std::vector<std::string> sections = {};  // names at the top that hold containers: "model"
};

// Throws nothing. Errors say what is wrong ("it ends in the middle"), not where: `what` alone, or
// with a `hint`. No value lies outside of int64_t; views are not compared with their storages.
Result<PickledState> ReadPickledState(std::string_view bytes);

// A dict of the values under their whole names, as Python's pickle protocol 2.
std::string WritePickledState(const std::vector<std::pair<std::string, PickledValue>>& values);

}  // namespace ddprun::trainer
