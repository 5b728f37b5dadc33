// Shared objects that are not this build's module: DDPRUN_OTHER says which.
#include "trainer/cuda/cuda_module.h"

#if DDPRUN_OTHER == 1  // another interface
extern "C" const ddprun::trainer::CudaModule ddprun_cuda_module = {
    .abi = ddprun::trainer::kCudaModuleAbi + 1,
    .torch = "",
    .cuda = 0,
    .count_devices = nullptr,
    .bus_id = nullptr,
    .make_group = nullptr,
    .make_graph = nullptr};
#elif DDPRUN_OTHER == 2  // another LibTorch
extern "C" const ddprun::trainer::CudaModule ddprun_cuda_module = {
    .abi = ddprun::trainer::kCudaModuleAbi,
    .torch = "2.12.0",
    .cuda = 0,
    .count_devices = nullptr,
    .bus_id = nullptr,
    .make_group = nullptr,
    .make_graph = nullptr};
#elif DDPRUN_OTHER == 3  // needs a library that is not found when it is loaded
extern "C" int OfTheAbsentLibrary();
extern "C" int call_it() {
  return OfTheAbsentLibrary();
}
#else                    // that library
extern "C" int OfTheAbsentLibrary() {
  return 0;
}
#endif
