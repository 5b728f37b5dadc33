// NVML's functions that LibTorch needs besides those of fake_nvml.cc, when memory is not enough.
extern "C" {
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device);

int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** device) {
  return nvmlDeviceGetHandleByIndex_v2(0, device);
}
int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  *count = 0;
  return 0;
}
}
