// Sums of NCCL's types, in the order of the ranks; those of 16 bits are summed in float32.
#pragma once

#include <nccl.h>

#include <vector>

namespace standin {

size_t SizeOf(ncclDataType_t type);

// Returns the number that is kept in one element of the type.
double NumberOf(const void* memory, ncclDataType_t type);

// Reduces the ranks' elements, each multiplied by `factor`, to `to`.
void Reduce(const std::vector<std::vector<char>>& from,
            ncclDataType_t type,
            ncclRedOp_t op,
            double factor,
            void* to);

}  // namespace standin
