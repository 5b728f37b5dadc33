// The source of libddprun_cuda.so.
#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <torch/version.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "trainer/cuda/cuda_module.h"
#include "trainer/cuda/device_kernels.h"

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
  // Gradients are summed during backward; if both want the device, the sums go first.
  auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
  options->timeout = timeout;
  options->group_name = name;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, std::move(options));
}

template <typename Function>
bool Succeeds(const Function& function) {
  try {
    function();
    return true;
  } catch (...) {
    return false;
  }
}

class CudaGraph final : public DeviceGraph {
 public:
  explicit CudaGraph(c10::Device device) : device_(device), pool_(at::cuda::graph_pool_handle()) {}

  // Ends a capture that a broken rule has stopped. Otherwise LibTorch's allocator would keep all
  // memory that is freed from then on, and its generator would stay in the capture.
  ~CudaGraph() override {
    if (!recording_) return;
    const c10::DeviceGuard guard(device_);
    Succeeds([this] { graph_.capture_end(); });
    const auto index = device_.index();
    at::HostAllocator* const pinned = at::getHostAllocator(at::kCUDA);
    Succeeds([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(index, pool_); });
    Succeeds([&] { pinned->end_allocate_to_pool(pool_); });
    if (!Succeeds([this] { graph_.pool(); })) {  // otherwise graph_ releases them
      Succeeds([&] { c10::cuda::CUDACachingAllocator::releasePool(index, pool_); });
      Succeeds([&] { pinned->release_pool(pool_); });
    }
    Succeeds([this] {
      at::Generator generator = at::globalContext().defaultGenerator(device_);
      generator.graphsafe_set_state(generator_before_);
    });
  }

  void Begin() override {
    const c10::DeviceGuard guard(device_);
    generator_before_ = at::globalContext().defaultGenerator(device_).clone();
    recording_ = true;
    // Thread-local, because NCCL's watchdog thread queries events meanwhile.
    graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
  }
  void End() override {
    const c10::DeviceGuard guard(device_);
    graph_.capture_end();
    recording_ = false;
  }
  void Replay() override { graph_.replay(); }

 private:
  const c10::Device device_;
  const c10::MempoolId_t pool_;
  at::Generator generator_before_;
  at::cuda::CUDAGraph graph_;
  bool recording_ = false;
};

std::unique_ptr<DeviceGraph> MakeGraph(c10::Device device) {
  return std::make_unique<CudaGraph>(device);
}

void* TakePinned(size_t bytes) {
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) == cudaSuccess) return memory;
  cudaGetLastError();  // clears the error, which LibTorch would find after its next kernel
  return nullptr;
}

void GivePinnedBack(void* memory) {
  if (cudaFreeHost(memory) != cudaSuccess) cudaGetLastError();
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
    .make_group = ddprun::trainer::MakeGroup,
    .make_graph = ddprun::trainer::MakeGraph,
    .make_kernels = ddprun::trainer::MakeDeviceKernels,
    .pinned = {.take = ddprun::trainer::TakePinned, .give_back = ddprun::trainer::GivePinnedBack}};
