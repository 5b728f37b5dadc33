#define DDPRUN_ONE_THREAD
#include "tests/trainer/standin/own_kernels.h"

#include <map>

#include "tests/trainer/cuda/kernels_on_cpu.h"

namespace standin {

namespace {

using Launcher = std::function<std::function<void()>(unsigned, void**)>;

template <typename Argument>
Launcher Of(void (*kernel)(Argument)) {
  return [kernel](unsigned blocks, void** arguments) {
    const Argument argument = *static_cast<const Argument*>(arguments[0]);
    return [=] {
      on_cpu::threadIdx.x = 0;
      on_cpu::blockDim.x = 1;
      on_cpu::gridDim.x = blocks;
      for (unsigned block = 0; block < blocks; ++block) {
        on_cpu::blockIdx.x = block;
        kernel(argument);
      }
    };
  };
}

}  // namespace

std::function<void()> OwnKernel(const std::string& name, unsigned blocks, void** arguments) {
  using namespace on_cpu;
  static const std::map<std::string, Launcher> all = {
      {"ddprun_losses_float", Of(ddprun_losses_float)},
      {"ddprun_losses_Bf16", Of(ddprun_losses_Bf16)},
      {"ddprun_losses_Fp16", Of(ddprun_losses_Fp16)},
      {"ddprun_norm_float", Of(ddprun_norm_float)},
      {"ddprun_norm_Bf16", Of(ddprun_norm_Bf16)},
      {"ddprun_norm_Fp16", Of(ddprun_norm_Fp16)},
      {"ddprun_norm_gradients_float", Of(ddprun_norm_gradients_float)},
      {"ddprun_norm_gradients_Bf16", Of(ddprun_norm_gradients_Bf16)},
      {"ddprun_norm_gradients_Fp16", Of(ddprun_norm_gradients_Fp16)}};
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second(blocks, arguments);
}

}  // namespace standin
