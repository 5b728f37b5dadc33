// LibTorch's interfaces of a device: guards, events, hooks, generators.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <chrono>

#include "tests/trainer/device/allocator.h"
#include "tests/trainer/device/generator.h"
#include "tests/trainer/device/host_sync.h"
#include "tests/trainer/device/pinned_memory.h"
#include "tests/trainer/device/tensors.h"

namespace ddprun::simulated {
namespace {

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDeviceType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return DeviceAt(CurrentDevice()); }
  void setDevice(c10::Device device) const override {
    if (device.has_index()) SetCurrentDevice(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override { setDevice(device); }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  c10::Stream getStream(c10::Device device) const override {
    return CurrentStream(device.has_index() ? device.index() : CurrentDevice());
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return StreamFromPool(device.has_index() ? device.index() : CurrentDevice());
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return getStreamFromGlobalPool(device, false);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return ExchangeStream(stream); }
  bool queryStream(const c10::Stream& stream) const override { return Query(stream); }
  void synchronizeStream(const c10::Stream& stream) const override {
    NoteHostSync(HostSyncKind::kSynchronize, stream.device_index());
    Synchronize(stream);
  }
  void synchronizeDevice(c10::DeviceIndex device) const override {
    NoteHostSync(HostSyncKind::kSynchronize, device);
    SynchronizeDevice(device);
  }

  void record(void** event,
              const c10::Stream& stream,
              c10::DeviceIndex,
              c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    Record(*static_cast<Event*>(*event), stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) LetWait(*static_cast<Event*>(event), stream);
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || Query(*static_cast<Event*>(event));
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    // On a GPU the thread would open a context on its own device, a few hundred MB there.
    const Event& waited_for = *static_cast<Event*>(event);
    const int device = waited_for.device;
    TORCH_CHECK(CurrentDevice() == device, "a thread whose device is ", CurrentDevice(),
                " waits for an event of device ", device);
    NoteHostSync(
        HasMoreBehind(waited_for) ? HostSyncKind::kEarlierEvent : HostSyncKind::kSynchronize,
        device);
    Synchronize(waited_for);
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* first, void* second, c10::DeviceIndex) const override {
    const auto time = [](void* event) {
      TORCH_CHECK(event != nullptr && static_cast<Event*>(event)->signal != nullptr &&
                      static_cast<Event*>(event)->signal->IsSet(),
                  "both events must have been recorded, and reached, before their times are asked");
      return static_cast<Event*>(event)->signal->time();
    };
    return std::chrono::duration<double, std::milli>(time(second) - time(first)).count();
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    TheAllocator().recordStream(data, stream);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(c10::DeviceIndex device) const override { SetCurrentDevice(device); }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(CurrentDevice());
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const auto before = getCurrentDevice();
    SetCurrentDevice(device);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
  bool isPinnedPtr(const void* data) const override { return IsPinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &TheHostAllocator(); }
  c10::Device getDeviceFromPtr(void* data) const override { return DeviceAt(DeviceOf(data)); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return DefaultGenerator(device < 0 ? CurrentDevice() : device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return NewGenerator(device < 0 ? CurrentDevice() : device);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    ResizeStorage(storage, bytes);
  }
};

const bool hooks_registered = [] {
  c10::register_privateuse1_backend("simulated");
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace
}  // namespace ddprun::simulated
