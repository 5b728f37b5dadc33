#include "base/nvidia_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/text.h"

namespace ddprun {

namespace {

// Types of nvml.h, whose ABI is fixed. The header itself comes only with a CUDA toolkit.
using Device = void*;

struct PciInfo {
  char legacy_bus_id[16];
  unsigned numbers[5];
  char bus_id[32];
};

struct MemoryInfo {
  unsigned long long total, free, used;
};

struct Utilization {
  unsigned gpu, memory;
};

constexpr int kGpuSensor = 0;
constexpr int kPeerReads = 0;

Error NoDriver(std::string what) {
  return Error{.title = "NO NVIDIA DRIVER",
               .what = std::move(what),
               .hint =
                   "Install the driver; in a container, pass the GPUs in (docker run --gpus "
                   "all).",
               .page = "no-gpu"};
}

class Nvml {
 public:
  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {}
  ~Nvml() {
    if (begun_) Query("nvmlShutdown");
    if (library_ != nullptr) ::dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  Status Begin() {
    if (library_ == nullptr) {
      const char* const text = ::dlerror();
      const std::string reason = text == nullptr ? "" : text;
      // If the file exists but is for another machine or truncated, the loader's text says so.
      const bool absent = reason.find("libnvidia-ml.so.1: cannot open") != std::string::npos;
      return NoDriver("NVIDIA's driver is not there: " +
                      (absent ? "libnvidia-ml.so.1 is not found." : reason + "."));
    }
    const std::optional<int> code = Code("nvmlInit_v2");
    begun_ = code == 0;
    if (begun_) return {};
    if (!code) return NoDriver("libnvidia-ml.so.1 has no nvmlInit_v2: it is no driver's, or old.");
    const auto text = Find<const char*(int)>("nvmlErrorString");
    return NoDriver(
        "NVIDIA's driver does not answer: " + std::string(text ? text(*code) : "unknown error") +
        " (NVML error " + std::to_string(*code) + ").");
  }

  // Returns whether the library has the function and it succeeds.
  template <typename... Args>
  bool Query(const char* function, Args... args) const {
    return Code(function, args...) == 0;
  }

  template <typename... Args>
  std::string Text(const char* function, Args... args) const {
    constexpr unsigned kBytes = 96;
    std::array<char, kBytes> text = {};
    return Query(function, args..., text.data(), kBytes) ? text.data() : "";
  }

 private:
  template <typename Function>
  Function* Find(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }

  template <typename... Args>
  std::optional<int> Code(const char* function, Args... args) const {
    const auto found = Find<int(Args...)>(function);
    if (found == nullptr) return std::nullopt;
    return found(args...);
  }

  void* library_;
  bool begun_ = false;
};

template <typename... Args>
std::optional<int> Number(const Nvml& nvml, const char* function, Args... args) {
  unsigned value = 0;
  if (!nvml.Query(function, args..., &value)) return std::nullopt;
  return static_cast<int>(value);
}

void ReadInstances(const Nvml& nvml, Device device, Gpu& gpu) {
  unsigned mode = 0;
  unsigned pending = 0;
  gpu.mig = nvml.Query("nvmlDeviceGetMigMode", device, &mode, &pending) && mode == 1;
  if (!gpu.mig) return;
  const int most = Number(nvml, "nvmlDeviceGetMaxMigDeviceCount", device).value_or(0);
  for (int i = 0; i < most; ++i) {
    Device instance = nullptr;
    if (!nvml.Query("nvmlDeviceGetMigDeviceHandleByIndex", device, static_cast<unsigned>(i),
                    &instance)) {
      continue;
    }
    gpu.instances.push_back(nvml.Text("nvmlDeviceGetUUID", instance));
  }
}

Gpu ReadGpu(const Nvml& nvml, Device device) {
  Gpu gpu{.name = nvml.Text("nvmlDeviceGetName", device),
          .uuid = nvml.Text("nvmlDeviceGetUUID", device),
          .bus_id = {}};
  PciInfo pci = {};
  if (nvml.Query("nvmlDeviceGetPciInfo_v3", device, &pci)) gpu.bus_id = pci.bus_id;
  MemoryInfo memory = {};
  if (nvml.Query("nvmlDeviceGetMemoryInfo", device, &memory)) {
    gpu.memory_bytes = static_cast<int64_t>(memory.total);
    gpu.memory_used = static_cast<int64_t>(memory.used);
  }
  gpu.celsius = Number(nvml, "nvmlDeviceGetTemperature", device, kGpuSensor);
  gpu.watts = Number(nvml, "nvmlDeviceGetPowerUsage", device);
  if (gpu.watts) gpu.watts = *gpu.watts / 1000;
  Utilization busy = {};
  if (nvml.Query("nvmlDeviceGetUtilizationRates", device, &busy)) {
    gpu.busy_percent = static_cast<int>(busy.gpu);
  }
  ReadInstances(nvml, device, gpu);
  return gpu;
}

std::vector<std::pair<size_t, size_t>> FindPairsWithoutPeerAccess(
    const Nvml& nvml, const std::vector<Device>& devices) {
  std::vector<std::pair<size_t, size_t>> without_peer_access;
  for (size_t a = 0; a < devices.size(); ++a) {
    for (size_t b = a + 1; b < devices.size(); ++b) {
      int status = 0;
      const bool is_known =
          nvml.Query("nvmlDeviceGetP2PStatus", devices[a], devices[b], kPeerReads, &status);
      if (is_known && status != 0) without_peer_access.emplace_back(a, b);
    }
  }
  return without_peer_access;
}

// Returns an identity of the device that the entry names, so that a second entry for it is noticed;
// nullopt if it names none. The entry is an index or the beginning of a UUID.
std::optional<std::string> DeviceNamed(const std::string& entry, const std::vector<Gpu>& gpus) {
  if (const std::optional<int64_t> index = ParseInt(entry)) {
    if (*index < 0 || *index >= static_cast<int64_t>(gpus.size())) return std::nullopt;
    const std::string& uuid = gpus[static_cast<size_t>(*index)].uuid;
    return uuid.empty() ? entry : uuid;
  }
  if (!entry.starts_with("GPU-") && !entry.starts_with("MIG-")) return std::nullopt;
  std::vector<std::string> found;
  for (const Gpu& gpu : gpus) {
    if (gpu.uuid.empty()) return entry;
    if (gpu.uuid.starts_with(entry)) found.push_back(gpu.uuid);
    for (const std::string& instance : gpu.instances) {
      if (instance.starts_with(entry)) found.push_back(instance);
    }
  }
  if (found.size() != 1) return std::nullopt;
  return found.front();
}

}  // namespace

Result<NvidiaDriver> QueryNvidiaDriver() {
  Nvml nvml;
  DDPRUN_TRY(nvml.Begin());
  NvidiaDriver driver;
  driver.version = nvml.Text("nvmlSystemGetDriverVersion");
  nvml.Query("nvmlSystemGetCudaDriverVersion_v2", &driver.cuda);
  const int count = Number(nvml, "nvmlDeviceGetCount_v2").value_or(0);
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) {
    Device device = nullptr;
    // A GPU that has fallen off the bus cannot be opened.
    if (!nvml.Query("nvmlDeviceGetHandleByIndex_v2", static_cast<unsigned>(i), &device)) continue;
    devices.push_back(device);
    driver.gpus.push_back(ReadGpu(nvml, device));
  }
  driver.without_peer_access = FindPairsWithoutPeerAccess(nvml, devices);
  return driver;
}

std::string DescribeGpu(const Gpu& gpu) {
  const auto describe = [](const std::optional<int>& value, const char* unit) {
    return value ? ", " + std::to_string(*value) + unit : "";
  };
  return gpu.name + ", " + FormatBytes(gpu.memory_bytes) + " (" + FormatBytes(gpu.memory_used) +
         " in use)" + describe(gpu.celsius, " C") + describe(gpu.watts, " W") +
         describe(gpu.busy_percent, " % busy");
}

int CountVisibleGpus(const std::vector<Gpu>& gpus, const std::optional<std::string>& visible) {
  if (!visible) {
    const auto whole = std::ranges::count_if(gpus, [](const Gpu& gpu) { return !gpu.mig; });
    if (whole > 0) return static_cast<int>(whole);
    return std::ranges::any_of(gpus, [](const Gpu& gpu) { return !gpu.instances.empty(); }) ? 1 : 0;
  }
  std::set<std::string> seen;
  for (const std::string_view part : SplitAt(*visible, ',')) {
    std::string entry;
    std::stringstream(std::string(part)) >> entry;
    const std::optional<std::string> device = DeviceNamed(entry, gpus);
    if (!device) break;
    if (!seen.insert(*device).second) return 0;
  }
  return static_cast<int>(seen.size());
}

std::string FindCudaModule(const Environment& env, const std::string& program_folder) {
  if (const auto given = env.Get("DDPRUN_CUDA_MODULE")) return *given;
  for (const char* folder : {"/", "/../lib/ddprun/", "/../lib64/ddprun/"}) {
    std::string path = program_folder + folder + "libddprun_cuda.so";
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

}  // namespace ddprun
