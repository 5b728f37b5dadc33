// A device's random numbers. They have the CPU's bits, because they come from the CPU's generator.
#pragma once

#include <ATen/core/Generator.h>

#include <functional>

namespace ddprun::simulated {

const at::Generator& DefaultGenerator(int device);
at::Generator NewGenerator(int device);

// Returns the generator for the CPU's kernel, if a device's kernel draws from `generator`.
at::Generator ForKernels(const at::Generator& generator);
// Returns `kernel`, which draws from `generator`, made to wait for kernels that were queued earlier
// on any stream and draw from it, too.
std::function<void()> Drawing(const at::Generator& generator, std::function<void()> kernel);

}  // namespace ddprun::simulated
