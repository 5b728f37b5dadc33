// Gathers, at rank 0, whole tensors of which ranks have parts or which only some ranks have; and
// distributes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// All functions are collectives over `control` (Mesh::control; nullptr: this process is alone).
// They throw Failure, also if a name has different types or shapes on two ranks. They process
// tensors one by one, so that each rank has only one whole tensor in host memory at a time.

// Returns the texts of all ranks, by rank.
std::vector<std::string> ExchangeTexts(c10d::Backend* control, const std::string& own);

// Calls rank 0's `take` with each whole tensor, on the CPU, in the order of names: each whose name
// begins with `prefix` and of which any rank's `state` has a part. Throws Failure if the parts do
// not make up the whole.
using TakeTensor = std::function<void(const std::string& name, const at::Tensor& whole)>;
void GatherWhole(const StateDict& state,
                 std::string_view prefix,
                 c10d::Backend* control,
                 const TakeTensor& take);

// Asks rank 0's `give` for each tensor that any rank's `state` names, and copies its parts into the
// states of all ranks.
using GiveTensor = std::function<at::Tensor(const std::string& name)>;
void DistributeWhole(const StateDict& state, c10d::Backend* control, const GiveTensor& give);

}  // namespace ddprun::trainer
