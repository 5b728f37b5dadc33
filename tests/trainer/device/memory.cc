#include "tests/trainer/device/memory.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/trainer/device/pinned_memory.h"

namespace ddprun::simulated {
namespace {

constexpr size_t kPinnedOffset = kDevices * kDeviceBytes;
constexpr size_t kAllBytes = kPinnedOffset + kDeviceBytes;

struct Mappings {
  std::byte* tensors;
  std::byte* kernels;
};

struct sigaction previous_action;

void Write(const char* text, int length) {
  if (write(STDERR_FILENO, text, static_cast<size_t>(std::max(length, 0))) < 0) return;
}

// Says who touched what, and lets the signal end the program.
void OnFault(int signal, siginfo_t* info, void* context);

Mappings Map() {
  const int file = memfd_create("simulated-device", MFD_CLOEXEC);
  const auto map = [&](int protection) {
    void* const memory = mmap(nullptr, kAllBytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory == MAP_FAILED) {
      std::perror("simulated device: mmap");
      std::abort();
    }
    return static_cast<std::byte*>(memory);
  };
  if (file < 0 || ftruncate(file, kAllBytes) != 0) {
    std::perror("simulated device: memfd");
    std::abort();
  }
  const Mappings mappings = {map(PROT_NONE), map(PROT_READ | PROT_WRITE)};
  mprotect(mappings.tensors + kPinnedOffset, kDeviceBytes, PROT_READ | PROT_WRITE);
  close(file);
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads what it needs, which a signal handler could not
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &previous_action);
  return mappings;
}

// On first use, which is after a trainer's fork: processes do not share it.
const Mappings& Memory() {
  static const Mappings mappings = Map();
  return mappings;
}

size_t OffsetOf(const void* address) {
  return static_cast<size_t>(static_cast<const std::byte*>(address) - Memory().tensors);
}

void OnFault(int signal, siginfo_t* info, void* context) {
  const size_t offset = OffsetOf(info->si_addr);
  if (offset >= kAllBytes) {
    if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
      previous_action.sa_sigaction(signal, info, context);
      return;
    }
    sigaction(signal, &previous_action, nullptr);
    return;
  }
  char text[512];
  if (offset < kPinnedOffset) {
    Write(text, snprintf(text, sizeof(text),
                         "simulated device: the host touched device memory of device %zu at "
                         "offset %zu, from:\n",
                         offset / kDeviceBytes, offset % kDeviceBytes));
  } else {
    Write(text, snprintf(text, sizeof(text),
                         "simulated device: the host touched pinned memory that it has not waited "
                         "for: %s; from:\n",
                         PendingCopyAt(info->si_addr)));
  }
  void* frames[32];
  backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
}

}  // namespace

std::byte* MemoryOf(int device) {
  return Memory().tensors + static_cast<size_t>(device) * kDeviceBytes;
}

std::byte* PinnedMemory() {
  return Memory().tensors + kPinnedOffset;
}

int DeviceOf(const void* address) {
  const size_t offset = OffsetOf(address);
  return offset < kPinnedOffset ? static_cast<int>(offset / kDeviceBytes) : -1;
}

bool IsPinned(const void* address) {
  const size_t offset = OffsetOf(address);
  return offset >= kPinnedOffset && offset < kAllBytes;
}

void* ForKernels(const void* address) {
  const size_t offset = OffsetOf(address);
  return offset < kAllBytes ? Memory().kernels + offset : const_cast<void*>(address);
}

}  // namespace ddprun::simulated
