// ddprun's own kernels (trainer/cuda/kernels.cu) on the stand-in: computed by the CPU.
#pragma once

#include <functional>
#include <string>

namespace standin {

// Returns a launch of the kernel with arguments that are copied; empty if there is no such kernel.
std::function<void()> OwnKernel(const std::string& name, unsigned blocks, void** arguments);

}  // namespace standin
