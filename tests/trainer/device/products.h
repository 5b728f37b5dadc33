// Products of matrices that a GPU's tensor cores do slowly or not at all.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace ddprun::simulated {

// Notes the operation if it multiplies matrices of 16-bit numbers. They are aligned if the rows, or
// the columns, of each begin at multiples of 16 bytes. Any thread.
void NoteProduct(const std::string& operation, const std::vector<at::Tensor>& matrices);

struct Products {
  std::vector<std::string> unaligned;  // with sizes and strides
  int aligned = 0;
  int with_vector = 0;  // of both: products to which a vector is added, in the same kernel
};

// Returns the noted operations since the last call. Any thread.
Products TakeProducts();

}  // namespace ddprun::simulated
