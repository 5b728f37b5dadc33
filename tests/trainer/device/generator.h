// Random numbers of a device: the CPU's generator, so that the bits are the CPU's.
#pragma once

#include <ATen/core/Generator.h>

#include <functional>

namespace ddprun::simulated {

const at::Generator& DefaultGenerator(int device);
at::Generator NewGenerator(int device);

// For a kernel on the device that draws from `generator`: what the CPU's kernel is to draw from.
at::Generator ForKernels(const at::Generator& generator);
// `kernel`, which draws from `generator`, after those that were queued before it on any stream.
std::function<void()> Drawing(const at::Generator& generator, std::function<void()> kernel);

}  // namespace ddprun::simulated
