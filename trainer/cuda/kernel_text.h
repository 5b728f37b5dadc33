// The texts that NVRTC compiles, as they were when the module was built.
#pragma once

#include <string_view>

namespace ddprun::trainer {

extern const std::string_view kKernelsText;          // kernels.cu
extern const std::string_view kKernelArgumentsText;  // kernel_arguments.h

}  // namespace ddprun::trainer
