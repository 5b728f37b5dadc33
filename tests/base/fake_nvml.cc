// Stands for libnvidia-ml.so.1 of NVIDIA's driver: FAKE_GPUS GPUs (default 2), of which the last
// is split into two instances where FAKE_MIG is set; or NVML's error number FAKE_NVML_ERROR.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Fake {
  int index;
  int instance;  // 0: the GPU itself
};

Fake devices[8][3];

unsigned Number(const char* name, unsigned fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : static_cast<unsigned>(std::atoi(text));
}

bool Split(int index) {
  return std::getenv("FAKE_MIG") != nullptr &&
         index + 1 == static_cast<int>(Number("FAKE_GPUS", 2));
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return static_cast<int>(Number("FAKE_NVML_ERROR", 0));
}

int nvmlShutdown() {
  return 0;
}

const char* nvmlErrorString(int code) {
  return code == 18 ? "Driver/library version mismatch" : "Driver Not Loaded";
}

int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  std::snprintf(text, bytes, "580.65.06");
  return 0;
}

int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = static_cast<int>(Number("FAKE_CUDA", 13000));
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = Number("FAKE_GPUS", 2);
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  devices[index][0] = {static_cast<int>(index), 0};
  *device = &devices[index][0];
  return 0;
}

int nvmlDeviceGetName(void*, char* text, unsigned bytes) {
  std::snprintf(text, bytes, "Fake GPU");
  return 0;
}

int nvmlDeviceGetUUID(void* device, char* text, unsigned bytes) {
  const Fake fake = *static_cast<Fake*>(device);
  if (fake.instance > 0) {
    std::snprintf(text, bytes, "MIG-%d%d-cafe", fake.index, fake.instance);
  } else {
    std::snprintf(text, bytes, "GPU-%d-beef", fake.index);
  }
  return 0;
}

struct PciInfo {
  char legacy_bus_id[16];
  unsigned numbers[5];
  char bus_id[32];
};

int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0",
                static_cast<unsigned>(static_cast<Fake*>(device)->index) + 0x3b);
  return 0;
}

int nvmlDeviceGetMemoryInfo(void*, unsigned long long* total_free_used) {
  total_free_used[0] = 80ull << 30;
  total_free_used[1] = 79ull << 30;
  total_free_used[2] = 1ull << 30;
  return 0;
}

int nvmlDeviceGetTemperature(void* device, int, unsigned* celsius) {
  *celsius = static_cast<Fake*>(device)->index == 0 ? 41 : 91;
  return 0;
}

int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 71500;
  return 0;
}

// nvmlDeviceGetUtilizationRates is not there, as in a driver that does not tell.

int nvmlDeviceGetMigMode(void* device, unsigned* mode, unsigned* pending) {
  *mode = *pending = Split(static_cast<Fake*>(device)->index) ? 1 : 0;
  return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
  *count = 7;
  return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** instance) {
  if (index >= 2) return 6;  // not found
  const int gpu = static_cast<Fake*>(device)->index;
  devices[gpu][index + 1] = {gpu, static_cast<int>(index) + 1};
  *instance = &devices[gpu][index + 1];
  return 0;
}

int nvmlDeviceGetP2PStatus(void* a, void* b, int, int* status) {
  *status = static_cast<Fake*>(a)->index == 0 && static_cast<Fake*>(b)->index == 2 ? 3 : 0;
  return 0;
}
}
