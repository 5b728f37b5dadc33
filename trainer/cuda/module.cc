// libddprun_cuda.so.
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <torch/version.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "trainer/cuda/cuda_module.h"

namespace ddprun::trainer {

namespace {

int CountDevices(std::string& why) {
  try {
    return c10::cuda::device_count_ensure_non_zero();
  } catch (const c10::Error& error) {
    why = error.what_without_backtrace();
    return 0;
  }
}

std::string BusId(int device) {
  char text[32] = "";
  const bool known = cudaDeviceGetPCIBusId(text, sizeof text, device) == cudaSuccess;
  return known ? text : "";
}

c10::intrusive_ptr<c10d::Backend> MakeGroup(const c10::intrusive_ptr<c10d::Store>& store,
                                            int rank,
                                            int size,
                                            std::chrono::milliseconds timeout,
                                            const std::string& name) {
  // Gradients are summed beside backward: where both want the device, the sums go first.
  auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
  options->timeout = timeout;
  options->group_name = name;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, std::move(options));
}

}  // namespace

}  // namespace ddprun::trainer

extern "C" __attribute__((visibility("default")))
const ddprun::trainer::CudaModule ddprun_cuda_module = {
    .abi = ddprun::trainer::kCudaModuleAbi,
    .torch = TORCH_VERSION,
    .cuda = CUDART_VERSION,
    .count_devices = ddprun::trainer::CountDevices,
    .bus_id = ddprun::trainer::BusId,
    .make_group = ddprun::trainer::MakeGroup};
