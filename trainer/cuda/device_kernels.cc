#include "trainer/cuda/device_kernels.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <vector>

#include "trainer/cuda/kernel_text.h"
#include "trainer/cuda/row_kernels.h"

namespace ddprun::trainer {

namespace {

// NVRTC's functions, which LibTorch's own libraries need, too. A handle is never closed.
class Nvrtc {
 public:
  Nvrtc() {
    const std::string name = "libnvrtc.so." + std::to_string(CUDART_VERSION / 1000);
    library_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr) return;
    const char* const text = ::dlerror();
    why = text != nullptr ? text : name;
  }

  // Returns the program for an architecture such as "sm_90", or "" with the reason in `why`.
  std::string Compile(const std::string& architecture, const char* type) {
    if (library_ == nullptr) return "";
    const std::array<std::string, 3> options = {"--gpu-architecture=" + architecture, "--std=c++17",
                                                std::string("-DDDPRUN_TYPE=") + type};
    std::array<const char*, 3> words = {};
    for (size_t i = 0; i < words.size(); ++i) words[i] = options[i].c_str();
    void* program = nullptr;
    const char* const headers[] = {kKernelArgumentsText.data()};
    const char* const names[] = {"trainer/cuda/kernel_arguments.h"};
    std::string code;
    if (Call("nvrtcCreateProgram", &program, kKernelsText.data(), "kernels.cu", 1, headers,
             names)) {
      if (Call("nvrtcCompileProgram", program, static_cast<int>(words.size()), words.data())) {
        code = Text("nvrtcGetCUBINSize", "nvrtcGetCUBIN", program);
      } else {
        why += ": " + Text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog", program);
      }
      Call("nvrtcDestroyProgram", &program);
    }
    return code;
  }

  std::string why;

 private:
  template <typename... Arguments>
  bool Call(const char* name, Arguments... arguments) {
    const auto function =
        reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));  // NVRTC's types are C's
    const int error = function == nullptr ? -1 : function(arguments...);
    if (error != 0) why = std::string(name) + " failed (" + std::to_string(error) + ")";
    return error == 0;
  }

  std::string Text(const char* size_name, const char* name, void* program) {
    size_t bytes = 0;
    std::string text;
    if (!Call(size_name, program, &bytes)) return "";
    text.resize(bytes);
    return Call(name, program, text.data()) ? text : "";
  }

  void* library_ = nullptr;
};

const char* NameOf(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float";
    case at::kBFloat16:
      return "Bf16";
    case at::kHalf:
      return "Fp16";
    default:
      return nullptr;
  }
}

class CudaKernels final : public RowKernels {
 public:
  struct Functions {
    cudaKernel_t losses;
    cudaKernel_t norm;
    cudaKernel_t gradients;
  };

  CudaKernels(at::ScalarType type, const DeviceSize& size, const Functions& functions)
      : RowKernels(type, size), functions_(functions) {}

  at::DeviceType device_type() const override { return at::kCUDA; }

 private:
  void Run(const LaunchShape& shape, c10::Device device, kernels::LossRows argument) override {
    Launch(functions_.losses, shape, device, &argument);
  }
  void Run(const LaunchShape& shape, c10::Device device, kernels::NormRows argument) override {
    Launch(functions_.norm, shape, device, &argument);
  }
  void Run(const LaunchShape& shape, c10::Device device, kernels::NormGradients argument) override {
    Launch(functions_.gradients, shape, device, &argument);
  }

  static void Launch(cudaKernel_t function,
                     const LaunchShape& shape,
                     c10::Device device,
                     void* argument) {
    if (shape.blocks == 0) return;
    const c10::cuda::CUDAGuard guard(device);
    void* arguments[] = {argument};
    C10_CUDA_CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(function),
                                    dim3(static_cast<unsigned>(shape.blocks)),
                                    dim3(static_cast<unsigned>(shape.threads)), arguments, 0,
                                    c10::cuda::getCurrentCUDAStream()));
  }

  const Functions functions_;
};

int Attribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

// Returns the name for NVRTC, such as "sm_90".
std::string ArchitectureOf(int device) {
  return "sm_" + std::to_string(Attribute(cudaDevAttrComputeCapabilityMajor, device)) +
         std::to_string(Attribute(cudaDevAttrComputeCapabilityMinor, device));
}

}  // namespace

std::shared_ptr<DeviceKernels> MakeDeviceKernels(c10::Device device,
                                                 at::ScalarType type,
                                                 std::string& why) {
  const char* const name = NameOf(type);
  if (name == nullptr) {
    why = "there are none for this type of numbers";
    return nullptr;
  }
  const c10::cuda::CUDAGuard guard(device);
  const std::string architecture = ArchitectureOf(device.index());
  for (int other = 0; other < c10::cuda::device_count(); ++other) {
    if (ArchitectureOf(other) == architecture) continue;
    why = "this process sees GPUs of several kinds";  // it may compute with each
    return nullptr;
  }
  Nvrtc nvrtc;
  const std::string code = nvrtc.Compile(architecture, name);
  if (code.empty()) {
    why = nvrtc.why;
    return nullptr;
  }
  cudaLibrary_t library = nullptr;
  CudaKernels::Functions functions = {};
  cudaError_t error =
      cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  const auto find = [&](const char* prefix, cudaKernel_t& function) {
    if (error != cudaSuccess) return;
    error = cudaLibraryGetKernel(&function, library, (std::string(prefix) + name).c_str());
  };
  find("ddprun_losses_", functions.losses);
  find("ddprun_norm_", functions.norm);
  find("ddprun_norm_gradients_", functions.gradients);
  if (error != cudaSuccess) {
    why = cudaGetErrorString(error);
    cudaGetLastError();  // clears the error, which LibTorch would find after its next kernel
    return nullptr;
  }
  const DeviceSize size = {Attribute(cudaDevAttrMultiProcessorCount, device.index()),
                           Attribute(cudaDevAttrL2CacheSize, device.index())};
  return std::make_shared<CudaKernels>(type, size, functions);
}

}  // namespace ddprun::trainer
