// Shapes of the results of operations that LibTorch has no meta kernel for in C++.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

namespace ddprun::simulated {

// As tensors without memory; from such arguments. nullopt: not known here either.
std::optional<std::vector<c10::IValue>> ShapesOf(const std::string& operation,
                                                 const std::vector<c10::IValue>& arguments);

}  // namespace ddprun::simulated
