// The part of Python's pickle that a state dict of torch.save needs: dicts, lists, numbers, texts
// and tensors. Executes nothing: a pickle that names any other class or function is refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace ddprun::trainer {

// A tensor as a view of a storage, which is outside the pickle. Counts are of elements.
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

// Dots join the names of nested containers: "model.fc.weight", "param_groups.0.lr".
struct PickledState {
  std::vector<std::pair<std::string, PickledValue>> values;
  std::vector<std::string> sections = {};  // names at the top whose values are containers: "model"
};

// Throws nothing. An error says what is wrong ("it ends in the middle") but not in which file: it
// has only `what`, maybe a `hint`. All values fit int64_t; views may exceed their storages.
Result<PickledState> ReadPickledState(std::string_view bytes);

// Returns a dict of the values under their full names, as Python's pickle protocol 2.
std::string WritePickledState(const std::vector<std::pair<std::string, PickledValue>>& values);

}  // namespace ddprun::trainer
