#include "tests/trainer/device/generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <array>
#include <mutex>
#include <utility>

#include "tests/trainer/device/graph.h"

namespace ddprun::simulated {
namespace {

class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  GeneratorImpl(int device, at::Generator cpu)
      : c10::GeneratorImpl(DeviceAt(device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        cpu_(std::move(cpu)) {}

  void set_current_seed(uint64_t seed) override { Idle().set_current_seed(seed); }
  void set_offset(uint64_t offset) override { Idle().set_offset(offset); }
  uint64_t get_offset() const override { return Idle().get_offset(); }
  uint64_t current_seed() const override { return Idle().current_seed(); }
  uint64_t seed() override { return Idle().seed(); }
  void set_state(const c10::TensorImpl& state) override {
    Idle();
    cpu_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    Idle();
    return cpu_.unsafeGetGeneratorImpl()->get_state();
  }

  const at::Generator& cpu() const { return cpu_; }
  // The last kernel's signal; `own` is the last's from now on.
  SignalPtr Follow(SignalPtr own) {
    const std::lock_guard lock(order_);
    return std::exchange(last_, std::move(own));
  }

 private:
  c10::GeneratorImpl* clone_impl() const override {
    Idle();
    return new GeneratorImpl(device().index(), cpu_.clone());
  }
  // The host knows the state of a real device's generator without waiting; this one has to.
  at::Generator& Idle() const {
    RefuseInCapture(device().index(), "a generator's state");
    std::unique_lock lock(order_);
    const SignalPtr last = last_;
    lock.unlock();
    if (last != nullptr) last->Wait();
    return cpu_;
  }

  mutable at::Generator cpu_;
  mutable std::mutex order_;
  SignalPtr last_;
};

GeneratorImpl& ImplOf(const at::Generator& generator) {
  return *static_cast<GeneratorImpl*>(generator.unsafeGetGeneratorImpl());
}

}  // namespace

const at::Generator& DefaultGenerator(int device) {
  static const auto* const generators = [] {
    auto* const all = new std::array<at::Generator, kDevices>;
    for (int i = 0; i < kDevices; ++i) {
      (*all)[static_cast<size_t>(i)] = NewGenerator(i);
    }
    return all;
  }();
  return (*generators)[static_cast<size_t>(device)];
}

at::Generator NewGenerator(int device) {
  return at::make_generator<GeneratorImpl>(device, at::detail::createCPUGenerator());
}

at::Generator ForKernels(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == kDeviceType, "a generator of ", generator.device(),
              " cannot draw on the simulated device");
  return ImplOf(generator).cpu();
}

std::function<void()> Drawing(const at::Generator& generator, std::function<void()> kernel) {
  if (CapturesDraw(generator)) return kernel;  // a replay has its turn as a whole
  const auto own = std::make_shared<Signal>();
  return [before = ImplOf(generator).Follow(own), own, kernel = std::move(kernel)] {
    if (before != nullptr) before->Wait();
    try {
      kernel();
    } catch (...) {
      own->Set();
      throw;
    }
    own->Set();
  };
}

}  // namespace ddprun::simulated
