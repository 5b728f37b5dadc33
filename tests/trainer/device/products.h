// Products of matrices that a GPU's tensor cores do slowly or not at all.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace ddprun::simulated {

// Notes the operation if it multiplies matrices of 16-bit numbers of which one has rows, or
// columns, that do not all begin at a multiple of 16 bytes. Any thread.
void NoteProduct(const std::string& operation, const std::vector<at::Tensor>& matrices);

// Returns the noted operations since the last call, with sizes and strides, and how many there were
// without a fault. Any thread.
struct Products {
  std::vector<std::string> unaligned;
  int aligned = 0;
};
Products TakeProducts();

}  // namespace ddprun::simulated
