// Runs an operation without a kernel of its own: queues the CPU's kernel on the current stream.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/stack.h>

namespace ddprun::simulated {

// LibTorch's kernel for the meta device gives the shapes of results, which are allocated at once.
// Without such a kernel the operation runs in order (NoteInOrder). Views are made at once.
void Fallback(const c10::OperatorHandle& operation, torch::jit::Stack* stack);

}  // namespace ddprun::simulated
