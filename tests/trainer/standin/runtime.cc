// CUDA's runtime over the host's memory: a copy is a copy, a kernel's name is logged, its values
// are for values.cc.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "tests/trainer/standin/device.h"
#include "tests/trainer/standin/own_kernels.h"

#undef cudaGetDeviceProperties

namespace {

using namespace standin;

struct Block {
  size_t bytes;
  int device;  // -1: the host's, pinned
};

std::mutex mutex;
std::map<const void*, std::string> kernels;
std::set<std::string> own_kernels;
std::map<const void*, size_t> variables;
std::map<char*, Block> blocks;
std::array<size_t, kMostDevices> used;
thread_local struct {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
} launch;

size_t Number(const char* name, size_t fallback) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
}

int Devices() {
  static const int found = [] {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible == nullptr) return static_cast<int>(Number("FAKE_GPUS", 2));
    return *visible == 0
               ? 0
               : static_cast<int>(1 + std::count(visible, visible + std::strlen(visible), ','));
  }();
  return found;
}

size_t Total() {
  return Number("STANDIN_MEMORY", size_t{80} << 30);
}

const Block* BlockOf(const void* memory, char** begin = nullptr) {
  auto found = blocks.upper_bound(static_cast<char*>(const_cast<void*>(memory)));
  if (found == blocks.begin()) return nullptr;
  --found;
  if (begin != nullptr) *begin = found->first;
  return static_cast<const char*>(memory) < found->first + found->second.bytes ? &found->second
                                                                               : nullptr;
}

bool IsPageable(const void* memory) {
  const std::lock_guard lock(mutex);
  return BlockOf(memory) == nullptr;
}

cudaError_t Copy(void* to, const void* from, size_t bytes, cudaStream_t stream, bool blocks_host) {
  Stream* const one = Of(stream);
  const bool from_host = IsPageable(from), to_host = IsPageable(to);
  if (one->graph != nullptr && (from_host || to_host || blocks_host)) {
    return BreakRule(one->graph, cudaErrorStreamCaptureUnsupported);
  }
  if (from_host && !one->IsIdle()) {
    // CUDA, too, has read pageable memory when the call returns.
    auto held = std::make_shared<std::vector<char>>(static_cast<const char*>(from),
                                                    static_cast<const char*>(from) + bytes);
    const cudaError_t error =
        Queue(stream, "memcpy", [=] { std::memcpy(to, held->data(), bytes); });
    if (blocks_host) one->Finish();
    return error;
  }
  const cudaError_t error = Queue(stream, "memcpy", [=] { std::memmove(to, from, bytes); });
  if (blocks_host || to_host) one->Finish();
  return error;
}

std::array<std::string, 64> absent;
template <size_t I>
int Absent() {
  std::fprintf(stderr, "stand-in: %s of CUDA's driver is not there\n", absent[I].c_str());
  return 801;  // CUDA_ERROR_NOT_SUPPORTED
}
template <size_t... I>
constexpr std::array<int (*)(), sizeof...(I)> AbsentTable(std::index_sequence<I...>) {
  return {&Absent<I>...};
}
constexpr auto kAbsent = AbsentTable(std::make_index_sequence<64>());

// With `arguments`, one of ddprun's own kernels computes.
cudaError_t Launch(const void* function,
                   cudaStream_t stream,
                   unsigned number_of_blocks = 0,
                   void** arguments = nullptr) {
  std::string name;
  bool is_own = false;
  {
    const std::lock_guard lock(mutex);
    const auto found = kernels.find(function);
    if (found == kernels.end()) return Say(cudaErrorInvalidDeviceFunction);
    name = found->second;
    is_own = own_kernels.contains(name);
    Log(name);
    static size_t launches = 0;
    if (++launches == Number("STANDIN_BREAKS_AT", 0)) {
      Break(cudaErrorIllegalAddress, "launch " + std::to_string(launches));
    }
  }
  return Queue(stream, name.c_str(),
               is_own ? OwnKernel(name, number_of_blocks, arguments) : Work());
}

}  // namespace

namespace standin {

bool IsPinned(const void* memory) {
  return !IsPageable(memory);
}

}  // namespace standin

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = Devices();
  return *count == 0 ? Say(cudaErrorNoDevice) : Say(cudaSuccess);
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= Devices()) return Say(cudaErrorInvalidDevice);
  current_device = device;
  return Say(cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  const cudaError_t error = Say(last_error);
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() {
  return Say(last_error);
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (static_cast<int>(error)) {
    case 0:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorAssert:
      return "device-side assert triggered";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    default:
      return "not supported by the stand-in";
  }
}
const char* cudaGetErrorName(cudaError_t error) {
  return cudaGetErrorString(error);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  std::memset(p, 0, sizeof *p);
  std::strcpy(p->name, "NVIDIA H100 80GB HBM3");
  p->totalGlobalMem = Total();
  p->major = 9;
  p->minor = 0;
  p->multiProcessorCount = 132;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = 2048;
  p->sharedMemPerBlock = 49152;
  p->sharedMemPerBlockOptin = 232448;
  p->sharedMemPerMultiprocessor = 233472;
  p->regsPerBlock = 65536;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->l2CacheSize = 52428800;
  p->textureAlignment = 512;
  p->unifiedAddressing = 1;
  return Say(cudaSuccess);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  static const std::map<int, int> known = {{cudaDevAttrComputeCapabilityMajor, 9},
                                           {cudaDevAttrComputeCapabilityMinor, 0},
                                           {cudaDevAttrMultiProcessorCount, 132},
                                           {cudaDevAttrL2CacheSize, 52428800},
                                           {cudaDevAttrWarpSize, 32},
                                           {cudaDevAttrMaxThreadsPerBlock, 1024},
                                           {cudaDevAttrMaxSharedMemoryPerBlock, 49152},
                                           {cudaDevAttrMaxSharedMemoryPerBlockOptin, 232448},
                                           {cudaDevAttrMaxGridDimX, 2147483647},
                                           {cudaDevAttrMaxGridDimY, 65535}};
  const auto found = known.find(attribute);
  *value = found != known.end() ? found->second : 0;
  return Say(cudaSuccess);
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return Say(cudaSuccess);
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return Say(cudaSuccess);
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, static_cast<size_t>(bytes), "0000:%02X:00.0", device + 0x3b);  // as fake_nvml
  return Say(cudaSuccess);
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const std::lock_guard lock(mutex);
  if (Broken() != 0) return Say(cudaSuccess);
  size_t& in_use = used[static_cast<size_t>(current_device)];
  if (in_use + bytes > Total()) return Say(cudaErrorMemoryAllocation);
  *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (*memory == MAP_FAILED) return Say(cudaErrorMemoryAllocation);
  blocks[static_cast<char*>(*memory)] = {bytes, current_device};
  in_use += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return Say(cudaSuccess);
  cudaDeviceSynchronize();  // as CUDA does
  const std::lock_guard lock(mutex);
  const auto found = blocks.find(static_cast<char*>(memory));
  if (found == blocks.end() || found->second.device < 0) return Say(cudaErrorInvalidValue);
  munmap(memory, found->second.bytes);
  used[static_cast<size_t>(found->second.device)] -= found->second.bytes;
  blocks.erase(found);
  return Say(cudaSuccess);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*memory == nullptr) return Say(cudaErrorMemoryAllocation);
  const std::lock_guard lock(mutex);
  blocks[static_cast<char*>(*memory)] = {bytes, -1};
  return Say(cudaSuccess);
}
cudaError_t cudaFreeHost(void* memory) {
  const std::lock_guard lock(mutex);
  if (blocks.erase(static_cast<char*>(memory)) == 0) return Say(cudaErrorInvalidValue);
  std::free(memory);
  return Say(cudaSuccess);
}
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
  const std::lock_guard lock(mutex);
  blocks[static_cast<char*>(memory)] = {bytes, -1};
  return Say(cudaSuccess);
}
cudaError_t cudaHostUnregister(void* memory) {
  const std::lock_guard lock(mutex);
  return Say(blocks.erase(static_cast<char*>(memory)) == 1 ? cudaSuccess
                                                           : cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return Say(cudaSuccess);
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(mutex);
  *total = Total();
  *free = Total() - used[static_cast<size_t>(current_device)];
  return Say(cudaSuccess);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* memory) {
  const std::lock_guard lock(mutex);
  const Block* const block = BlockOf(memory);
  *a = {};
  a->type = block == nullptr    ? cudaMemoryTypeUnregistered
            : block->device < 0 ? cudaMemoryTypeHost
                                : cudaMemoryTypeDevice;
  a->device = block == nullptr ? -2 : std::max(block->device, 0);
  if (block != nullptr) a->devicePointer = const_cast<void*>(memory);
  if (block == nullptr || block->device < 0) a->hostPointer = const_cast<void*>(memory);
  return Say(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(
    void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return Copy(to, from, bytes, stream, false);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return Copy(to, from, bytes, nullptr, true);
}
cudaError_t cudaMemcpyPeerAsync(
    void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  return Copy(to, from, bytes, stream, false);
}
cudaError_t cudaMemcpy2DAsync(void* to,
                              size_t to_pitch,
                              const void* from,
                              size_t from_pitch,
                              size_t width,
                              size_t height,
                              cudaMemcpyKind,
                              cudaStream_t stream) {
  for (size_t row = 0; row < height; ++row) {
    Copy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch,
         width, stream, false);
  }
  return Say(cudaSuccess);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return Queue(stream, "memset", [=] { std::memset(to, value, bytes); });
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char* host, char*, const char*, int, size_t bytes, int, int) {
  const std::lock_guard lock(mutex);
  variables[host] = bytes;
}
void __cudaRegisterFunction(
    void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  const std::lock_guard lock(mutex);
  kernels[host] = name;
}
char __cudaInitModule(void**) {
  return 1;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  launch = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = launch.grid;
  *block = launch.block;
  *shared = launch.shared;
  *static_cast<cudaStream_t*>(stream) = launch.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return Say(cudaSuccess);
}
cudaError_t cudaLaunchKernel(
    const void* function, dim3 grid, dim3, void** arguments, size_t, cudaStream_t stream) {
  return Launch(function, stream, grid.x, arguments);
}
cudaError_t __cudaLaunchKernel(
    cudaKernel_t function, dim3, dim3, void**, size_t, cudaStream_t stream) {
  return Launch(function, stream);
}
// NOLINTEND(bugprone-reserved-identifier)
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void**) {
  return Launch(function, config->stream);
}

// A program that NVRTC has compiled: its kernels are known by their names.
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library,
                                const void* code,
                                cudaJitOption*,
                                void**,
                                unsigned,
                                cudaLibraryOption*,
                                void**,
                                unsigned) {
  if (std::memcmp(code, "\177ELF", 4) != 0) return Say(cudaErrorInvalidValue);
  *library = reinterpret_cast<cudaLibrary_t>(&own_kernels);
  return Say(cudaSuccess);
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t, const char* name) {
  const std::lock_guard lock(mutex);
  const std::string* const kept = &*own_kernels.insert(name).first;
  kernels[kept] = name;
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<std::string*>(kept));
  return Say(cudaSuccess);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void*) {
  *a = {};
  a->maxThreadsPerBlock = 1024;
  a->ptxVersion = a->binaryVersion = 90;
  return Say(cudaSuccess);
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return Say(cudaSuccess);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks_of_one, const void*, int, size_t, unsigned) {
  *blocks_of_one = 2;
  return Say(cudaSuccess);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks_of_one,
                                                          const void*,
                                                          int,
                                                          size_t) {
  *blocks_of_one = 2;
  return Say(cudaSuccess);
}

// A function of the driver that is not there refuses when it is called, with its name.
cudaError_t cudaGetDriverEntryPointByVersion(const char* name,
                                             void** out,
                                             unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  *out = driver != nullptr ? dlsym(driver, name) : nullptr;
  if (*out == nullptr) {
    const std::lock_guard lock(mutex);
    auto* const slot = std::find_if(absent.begin(), absent.end(), [&](const std::string& one) {
      return one.empty() || one == name;
    });
    if (slot == absent.end()) return Say(cudaErrorSymbolNotFound);
    *slot = name;
    *out = reinterpret_cast<void*>(kAbsent[static_cast<size_t>(slot - absent.begin())]);
  }
  if (result != nullptr) *result = cudaDriverEntryPointSuccess;
  return Say(cudaSuccess);
}
}
