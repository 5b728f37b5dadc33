#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <algorithm>
#include <filesystem>

#include "base/failure.h"
#include "base/last_words.h"
#include "base/nvidia_driver.h"
#include "trainer/cuda/cuda_module.h"

namespace ddprun::trainer {

namespace {

constexpr const char* kWhere = "run.device \"cuda\"";
constexpr const char* kAskDoctor = "ddprun doctor --gpu says what is missing.";
constexpr const char* kOrCpu = " Or train on the CPU: run.device \"cpu\".";

std::string CudaText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Error NoModule() {
  return Error{.code = Code::kUsage,
               .title = "NO CUDA MODULE",
               .where = kWhere,
               .what =
                   "This ddp-trainer was built for CPUs: libddprun_cuda.so is neither beside it "
                   "nor\nin its lib/ddprun, and DDPRUN_CUDA_MODULE names none.",
               .hint = std::string("Run scripts/setup.sh --cuda and build again.") + kOrCpu,
               .page = "no-cuda-module"};
}

Error Unusable(const std::string& path, std::string what, std::string hint) {
  return Error{.code = Code::kUsage,
               .title = "CUDA MODULE CANNOT BE USED",
               .where = path,
               .what = std::move(what),
               .hint = std::move(hint) + kOrCpu,
               .page = "cuda-module-cannot-be-used"};
}

Error OtherBuild(const std::string& path, const std::string& found, const std::string& own) {
  return Unusable(path, "It was built with " + found + ", and this ddp-trainer with " + own + ".",
                  "Build both again, in one build folder.");
}

Error NoGpu(std::string what, std::string hint) {
  return Error{.code = Code::kUsage,
               .title = "NO GPU",
               .where = kWhere,
               .what = std::move(what),
               .hint = std::move(hint) + kOrCpu,
               .page = "no-gpu"};
}

// A driver supports all CUDA versions of its major version, and older ones.
Status CheckDriver(const Result<NvidiaDriver>& driver, const CudaModule& module) {
  if (!driver) return NoGpu(driver.error().what, driver.error().hint);
  if (driver->cuda == 0 || driver->cuda / 1000 >= module.cuda / 1000) return {};
  return NoGpu("The driver, " + driver->version + ", serves CUDA up to " + CudaText(driver->cuda) +
                   "; CUDA " + CudaText(module.cuda) + " is needed.",
               "Install a newer driver (CUDA 13: 580 or newer).");
}

std::string ProgramFolder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

Result<const CudaModule*> OpenFor(const Result<NvidiaDriver>& driver, const Environment& env) {
  const std::string path = FindCudaModule(env, ProgramFolder());
  if (path.empty()) return NoModule();
  DDPRUN_ASSIGN(const CudaModule* module, OpenCudaModule(path));
  DDPRUN_TRY(CheckDriver(driver, *module));
  return module;
}

}  // namespace

Result<const CudaModule*> OpenCudaModule(const std::string& path) {
  // RTLD_NOW, so that a missing library shows here and not within a run. RTLD_GLOBAL, because
  // CUDA's operators are registered once for the whole process.
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* const text = ::dlerror();
    return Unusable(path,
                    "The dynamic loader refuses it:\n" + std::string(text ? text : "no reason"),
                    "Run scripts/setup.sh --cuda, which installs the libraries that it needs, and "
                    "build again.");
  }
  const auto* module = static_cast<const CudaModule*>(::dlsym(handle, "ddprun_cuda_module"));
  if (module == nullptr) {
    return Unusable(path, "It has no ddprun_cuda_module: it is another library.",
                    "Look at DDPRUN_CUDA_MODULE.");
  }
  if (module->abi != kCudaModuleAbi) {
    return OtherBuild(path, "interface " + std::to_string(module->abi),
                      std::to_string(kCudaModuleAbi));
  }
  if (std::string(module->torch) != TORCH_VERSION) {
    return OtherBuild(path, std::string("LibTorch ") + module->torch,
                      std::string("LibTorch ") + TORCH_VERSION);
  }
  // After an error of a device LibTorch's allocator throws when a tensor's memory is freed, thus
  // while the stack unwinds: nobody catches that.
  uncaught_error = [] { return CurrentDeviceError([] { return std::string("more memory"); }); };
  return module;
}

DeviceChoice ChooseDevice(const std::string& device,
                          const Environment& env,
                          const std::string& key) {
  if (device == "cpu") return {};
  DeviceChoice choice{.required = device.starts_with("cuda")};
  const Result<NvidiaDriver> driver = QueryNvidiaDriver();
  const bool any = driver && CountVisibleGpus(driver->gpus, env.Get("CUDA_VISIBLE_DEVICES")) > 0;
  if (!choice.required && !any) return {};
  const Result<const CudaModule*> module = OpenFor(driver, env);
  if (module) {
    choice.module = *module;
  } else if (choice.required) {
    Error error = module.error();
    if (key != "run.device") {
      if (error.where == kWhere) error.where = key;
      const size_t or_cpu = std::min(error.hint.rfind(kOrCpu), error.hint.size());
      error.hint.resize(or_cpu);
      error.hint += " Or train on the CPU: \"cpu\" in " + key + ".";
    }
    throw Failure(std::move(error));
  } else {
    choice.note = "there are GPUs, but training is on the CPU: " + module.error().what;
  }
  return choice;
}

Result<c10::Device> DeviceOf(const CudaModule& module, int local_rank) {
  std::string why;
  const int count = module.count_devices(why);
  return PickDevice(local_rank, count, why);
}

Result<c10::Device> PickDevice(int local_rank, int count, const std::string& why) {
  if (local_rank < count) {
    return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(local_rank));
  }
  if (count == 0) {
    return NoGpu("CUDA sees no GPU: " + why, kAskDoctor);
  }
  return Error{.code = Code::kUsage,
               .title = "TOO FEW GPUS",
               .where = "local rank " + std::to_string(local_rank),
               .what =
                   "Each rank takes the GPU with its local rank's number, and this process "
                   "sees " +
                   std::to_string(count) + ".",
               .hint =
                   "Start as many ranks as there are GPUs (--nproc_per_node=gpu), or name more "
                   "in\nCUDA_VISIBLE_DEVICES; MIG instances need --virtual_local_rank.",
               .page = "too-few-gpus"};
}

Status CheckDevices(const CudaModule* module,
                    std::span<const c10::Device> devices,
                    const std::string& key) {
  const auto largest = std::ranges::max_element(devices, {}, [](const c10::Device& device) {
    return device.is_cuda() ? int{device.index()} : -1;
  });
  if (largest == devices.end() || !largest->is_cuda()) return {};
  std::string why = "libddprun_cuda.so was not opened.";
  const int count = module == nullptr ? 0 : module->count_devices(why);
  if (largest->index() < count) return {};
  if (count == 0) return NoGpu("CUDA sees no GPU: " + why, kAskDoctor);
  return Error{.code = Code::kUsage,
               .title = "TOO FEW GPUS",
               .where = key,
               .what = "\"" + largest->str() + "\" is none of the " + std::to_string(count) +
                       " that this process sees; they count from 0.",
               .hint = "Name fewer, or more in CUDA_VISIBLE_DEVICES.",
               .page = "too-few-gpus"};
}

Error CurrentDeviceError(const std::function<std::string()>& needs) {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    return Error{.title = "OUT OF GPU MEMORY",
                 .what = std::string(error.what_without_backtrace()) +
                         "\nThis run was estimated to need " + needs() + ".",
                 .hint =
                     "Lower training.per_device_train_batch_size (and raise "
                     "training.gradient_accumulation_steps\nfor the same step), shorten the "
                     "samples, or set training.gradient_checkpointing,\ntraining.precision "
                     "\"bf16\" or strategy.type \"zero3\".",
                 .page = "out-of-gpu-memory"};
  } catch (const c10::AcceleratorError& error) {
    return Error{.title = "GPU FAILED",
                 .what = error.what_without_backtrace(),
                 .hint =
                     "What a GPU does wrong shows later than it is: CUDA_LAUNCH_BLOCKING=1 "
                     "shows where. If the GPU itself\nis the reason, dmesg has lines with Xid, "
                     "and ddprun doctor --gpu does not list it any more.",
                 .page = "gpu-failed"};
  } catch (const c10::DistBackendError& error) {
    return Error{.title = "GPU COLLECTIVE FAILED",
                 .what = std::string(error.what_without_backtrace()) +
                         "\nResults of collectives were expected; this step's may be wrong, so it "
                         "is neither reported nor saved.",
                 .hint =
                     "NCCL's lines above name the collective. Look at the messages of other ranks, "
                     "and at the network\nbetween the GPUs (NCCL_DEBUG=INFO). If ranks are only "
                     "slow, raise comm.train_timeout_seconds.",
                 .page = "gpu-collective-failed"};
  } catch (...) {
    return CurrentError();
  }
}

}  // namespace ddprun::trainer
