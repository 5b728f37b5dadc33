// The state of all owners, as one value.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <ddprun/state.h>

namespace ddprun::trainer {

struct StateDict {
  std::vector<StateTensor> tensors;  // in the order in which their owners name them
  std::map<std::string, int64_t> numbers;
};

using VisitState = std::function<void(StateVisitor& visitor)>;

StateDict SaveState(const VisitState& owners);

// Differences between stored and expected tensors: all are counted, the first ones are named.
struct StateDifferences {
  std::vector<std::string> missing = {};
  std::vector<std::string> unknown = {};
  std::vector<std::string> misfits = {};

  bool none() const { return missing.empty() && unknown.empty() && misfits.empty(); }
  // Returns a line for each kind. `owner` is for messages, such as "the model".
  std::string Text(std::string_view owner) const;
};

}  // namespace ddprun::trainer
