// State of which ranks have parts, or names that others do not have, as a whole at rank 0.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// All are collectives over `control` (Mesh::control; nullptr: this process is alone), and throw
// Failure, also where ranks have one name in different types or shapes. Tensors travel one by one:
// each rank has one whole tensor in host memory meanwhile.

// What each rank says, by rank.
std::vector<std::string> ExchangeTexts(c10d::Backend* control, const std::string& own);

// Rank 0's `take` gets each whole tensor of which any rank's `state` has a part and whose name
// begins with `prefix`; by name, on the CPU. Throws Failure where the parts are not the whole.
using TakeTensor = std::function<void(const std::string& name, const at::Tensor& whole)>;
void GatherWhole(const StateDict& state,
                 std::string_view prefix,
                 c10d::Backend* control,
                 const TakeTensor& take);

// The way back: what any rank's `state` names, rank 0's `give` is asked for, and all get their
// parts of it.
using GiveTensor = std::function<at::Tensor(const std::string& name)>;
void HandOutWhole(const StateDict& state, c10d::Backend* control, const GiveTensor& give);

}  // namespace ddprun::trainer
