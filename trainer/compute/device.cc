#include "trainer/compute/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>
#include <mutex>

#include "base/mix_seeds.h"

namespace ddprun::trainer {

namespace {

std::atomic<int> device_forms_only = 0;
thread_local at::Generator own_generator;
thread_local std::vector<at::Tensor>* kept_copies = nullptr;

at::Generator GeneratorOf(c10::Device device) {
  return device.is_cpu() ? HostGenerator() : at::globalContext().defaultGenerator(device);
}

}  // namespace

bool IsForHostKernels(const at::Tensor& tensor) {
  return tensor.is_cpu() && device_forms_only.load(std::memory_order_relaxed) == 0;
}

DeviceOperatorsOnly::DeviceOperatorsOnly() {
  ++device_forms_only;
}

DeviceOperatorsOnly::~DeviceOperatorsOnly() {
  --device_forms_only;
}

void UseDevice(c10::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
}

void WaitForDevice(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl streams(device.type());
  streams.synchronizeStream(streams.getStream(device));
}

at::Generator HostGenerator() {
  return own_generator.defined() ? own_generator : at::detail::getDefaultCPUGenerator();
}

void UseOwnHostGenerator() {
  own_generator = at::detail::createCPUGenerator();
}

uint64_t HostSeed() {
  at::Generator generator = HostGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.current_seed();
}

void SeedGenerators(c10::Device device, uint64_t seed) {
  const auto seed_one = [seed](at::Generator generator) {
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
  };
  seed_one(HostGenerator());
  if (!device.is_cpu()) seed_one(at::globalContext().defaultGenerator(device));
}

uint64_t DrawSeed() {
  at::Generator generator = HostGenerator();
  const std::lock_guard lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

RandomState RandomState::Of(c10::Device device) {
  const auto get = [](c10::Device owner) {
    at::Generator generator = GeneratorOf(owner);
    const std::lock_guard lock(generator.mutex());
    return generator.get_state();
  };
  return {.device = device,
          .host = get(at::kCPU),
          .on_device = device.is_cpu() ? at::Tensor() : get(device)};
}

void RandomState::Restore() const {
  const auto set = [](c10::Device owner, const at::Tensor& state) {
    at::Generator generator = GeneratorOf(owner);
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  };
  set(at::kCPU, host);
  if (on_device.defined()) set(device, on_device);
}

RandomNumbersOfPart::RandomNumbersOfPart(c10::Device device, int64_t part)
    : seed_(MixSeeds({DrawSeed(), static_cast<uint64_t>(part)})), after_(RandomState::Of(device)) {
  SeedGenerators(device, seed_);
}

at::Tensor ToDevice(const at::Tensor& host, c10::Device device) {
  if (device.is_cpu() || !host.defined()) return host;
  const at::Tensor pinned = host.pin_memory();
  if (kept_copies != nullptr) kept_copies->push_back(pinned);
  return pinned.to(device, host.scalar_type(), /*non_blocking=*/true);
}

KeepHostCopies::KeepHostCopies(std::vector<at::Tensor>& kept) {
  kept_copies = &kept;
}

KeepHostCopies::~KeepHostCopies() {
  kept_copies = nullptr;
}

DeviceMemoryPeak TakeMemoryPeak(c10::Device device) {
  if (device.is_cpu()) return {};
  c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(device.type());
  if (!allocator->initialized()) return {};
  const auto stats = allocator->getDeviceStats(device.index());
  allocator->resetPeakStats(device.index());
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {.allocated = stats.allocated_bytes[kAll].peak,
          .reserved = stats.reserved_bytes[kAll].peak};
}

}  // namespace ddprun::trainer

namespace ddprun {

DeviceScalar::DeviceScalar(const at::Tensor& value) {
  if (value.is_cpu()) {
    value_ = value.item<double>();
  } else {
    on_device_ = value.detach().to(at::kDouble);
  }
}

DeviceScalar::operator double() const {
  return on_device_.defined() ? on_device_.item<double>() : value_;
}

DeviceScalar DeviceScalar::operator*(double factor) const {
  if (on_device_.defined()) return DeviceScalar(on_device_.mul(factor));
  return DeviceScalar(value_ * factor);
}

DeviceScalar& DeviceScalar::operator+=(const DeviceScalar& other) {
  const at::NoGradGuard no_grad;
  if (!on_device_.defined() && !other.on_device_.defined()) {
    value_ += other.value_;
  } else if (!on_device_.defined()) {
    on_device_ = value_ == 0 ? other.on_device_ : other.on_device_.add(value_);
  } else if (other.on_device_.defined()) {
    on_device_ = on_device_.add(other.on_device_);
  } else {
    on_device_ = on_device_.add(other.value_);
  }
  return *this;
}

}  // namespace ddprun
