// Shapes of results of operations for which LibTorch has no meta kernel in C++.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

namespace ddprun::simulated {

// Takes and returns tensors without memory. Returns nullopt if it does not know the operation.
std::optional<std::vector<c10::IValue>> ShapesOf(const std::string& operation,
                                                 const std::vector<c10::IValue>& arguments);

}  // namespace ddprun::simulated
