// One mistake of each kind that a real device would forgive most of the time: each is found in
// every run, and the message names operation, stream and place.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/trainer/device/simulated_device.h"
#include "tests/trainer/device/thrown.h"

namespace ddprun::simulated {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const auto kOptions = at::TensorOptions(DeviceAt()).dtype(at::kFloat);

at::Tensor Pinned(int64_t size) {
  return at::zeros({size}, at::TensorOptions().pinned_memory(true));
}

// Each test finds the device as a program does.
class Fault : public testing::Test {
 protected:
  // A forked child of a program with threads could wait for one of them for ever.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override {
    for (int device = 0; device < kDevices; ++device) SynchronizeDevice(device);
    TheAllocator().emptyCache({});
  }
};

TEST_F(Fault, RawPointer) {
  const at::Tensor tensor = at::ones({4}, kOptions);
  EXPECT_DEATH(static_cast<volatile float*>(tensor.data_ptr())[0] = 1,
               "the host touched device memory of device 0 at offset");
  const at::Tensor other = at::ones({4}, kOptions.device(DeviceAt(3)));
  volatile float value = 0;
  EXPECT_DEATH(value = static_cast<volatile float*>(other.data_ptr())[1],
               "the host touched device memory of device 3 at offset");
  static_cast<void>(value);
}

TEST_F(Fault, MissingStreamWait) {
  const Label label("prefetch");
  const c10::Stream side = StreamFromPool(0);
  at::Tensor made;
  {
    const c10::StreamGuard guard(side);
    made = at::ones({100}, kOptions);
  }
  const std::string text = Thrown([&] {
    const Label inner("use of the batch");
    made.add(1);
  });
  EXPECT_THAT(text, AllOf(HasSubstr("data race"), HasSubstr("add.out on the default stream"),
                          HasSubstr("reads 400 bytes that aten::fill_.Scalar on stream"),
                          HasSubstr("prefetch, use of the batch")));
  c10::Event ready(kDeviceType);
  ready.record(side);
  ready.block(CurrentStream(0));
  EXPECT_EQ(Thrown([&] { made.add(1); }), "nothing");
}

TEST_F(Fault, MissingWaitForAReader) {
  const c10::Stream side = StreamFromPool(0);
  const at::Tensor weight = at::ones({100}, kOptions);
  c10::Event ready(kDeviceType);
  ready.record(CurrentStream(0));
  ready.block(side);
  at::Tensor sum;
  {
    const c10::StreamGuard guard(side);
    sum = weight.sum();
  }
  EXPECT_THAT(Thrown([&] { weight.narrow(0, 50, 50).mul_(2); }),
              AllOf(HasSubstr("mul.out on the default stream of device 0 writes 200 bytes that"),
                    HasSubstr("reads")));
  // Other bytes.
  const at::Tensor half = at::ones({100}, kOptions);
  ready.record(CurrentStream(0));
  ready.block(side);
  {
    const c10::StreamGuard guard(side);
    sum = half.narrow(0, 0, 50).sum();
  }
  EXPECT_EQ(Thrown([&] { half.narrow(0, 50, 50).mul_(2); }), "nothing");
}

// A tensor of the default stream that a side stream reads when it is freed.
std::string FreeDuringUse(bool record) {
  const c10::Stream side = StreamFromPool(0);
  at::Tensor tensor = at::ones({12'345}, kOptions), sum;
  c10::Event ready(kDeviceType);
  ready.record(CurrentStream(0));
  ready.block(side);
  {
    const c10::StreamGuard guard(side);
    sum = tensor.sum();
  }
  if (record) tensor.record_stream(side);
  tensor.reset();
  return Thrown([] { at::zeros({12'345}, kOptions); });
}

TEST_F(Fault, MissingRecordStream) {
  EXPECT_THAT(FreeDuringUse(false), AllOf(HasSubstr("record_stream"), HasSubstr("sum"),
                                          HasSubstr("stream"), HasSubstr("in ")));
  EXPECT_EQ(FreeDuringUse(true), "nothing");
}

TEST_F(Fault, GradientsOnAnotherStreamThanBackwards) {
  const at::Tensor weight = at::ones({10}, kOptions).set_requires_grad(true);
  weight.pow(2).sum().backward();
  const c10::Stream side = StreamFromPool(0);
  const c10::StreamGuard guard(side);
  EXPECT_THAT(Thrown([&] { weight.grad().mul_(2); }),
              AllOf(HasSubstr("data race"), HasSubstr("backward, ")));
}

TEST_F(Fault, HiddenHostSync) {
  const Label label("clipping");
  const at::Tensor norm = at::ones({}, kOptions);
  const at::Tensor host = at::ones({3});
  const ForbidHostSync forbid;
  const auto here = [](const char* kind, const char* operation) {
    return AllOf(HasSubstr(kind), HasSubstr(operation), HasSubstr("device 0, clipping"));
  };
  EXPECT_THAT(Thrown([&] { norm.item(); }), here("a value to the host", "aten::item"));
  EXPECT_THAT(Thrown([&] { norm.cpu(); }), here("a blocking copy to the host", "aten::copy_"));
  EXPECT_THAT(Thrown([&] { host.to(DeviceAt(), true); }),
              here("a blocking copy to the device", "aten::copy_"));
  EXPECT_THAT(Thrown([&] { CurrentStream(0).synchronize(); }), here("synchronize", "the host"));
  EXPECT_THAT(Thrown([&] { at::nonzero(norm); }),
              here("a shape that depends on data", "aten::nonzero"));
  EXPECT_THAT(Thrown([&] { at::equal(norm, norm); }), here("a value to the host", "equal"));
  const AllowHostSync allow;
  EXPECT_EQ(Thrown([&] { norm.item(); }), "nothing");
}

TEST_F(Fault, TensorOnTheWrongDevice) {
  const Label label("loss");
  const at::Tensor here = at::ones({3}, kOptions);
  const at::Tensor there = at::ones({3}, kOptions.device(DeviceAt(1)));
  EXPECT_THAT(Thrown([&] { here.add(there); }),
              AllOf(HasSubstr("simulated:0"), HasSubstr("simulated:1")));
  EXPECT_THAT(Thrown([&] {
                at::embedding(here.view({3, 1}), at::zeros({2}, at::kLong));
              }),
              AllOf(HasSubstr("tensor on the wrong device: aten::index_select"),
                    HasSubstr("self on simulated:0, index on cpu"), HasSubstr("loss")));
  EXPECT_EQ(Thrown([&] { here.add(at::scalar_tensor(2)); }), "nothing");
}

TEST_F(Fault, ViewOfAFreedBucket) {
  const Label label("step");
  at::Tensor bucket = at::ones({100}, kOptions);
  // A view that does not keep its bucket alive.
  const at::Tensor view = at::for_blob(bucket.data_ptr(), {10}).options(kOptions).make_tensor();
  bucket.reset();
  EXPECT_THAT(Thrown([&] { view.add(1); }),
              AllOf(HasSubstr("use of freed device memory"), HasSubstr("aten::add.out"),
                    HasSubstr("the default stream of device 0 reads 40 bytes"),
                    HasSubstr("allocated by"), HasSubstr("step")));
  const at::Tensor shrunk = at::ones({100}, kOptions);
  const at::Tensor whole = shrunk.view({10, 10});
  shrunk.storage().unsafeGetStorageImpl()->set_nbytes(0);
  EXPECT_THAT(Thrown([&] { whole.sum(); }), HasSubstr("was it freed by resizing?"));
}

TEST_F(Fault, AsynchronousError) {
  const Label label("lookup");
  const at::Tensor table = at::ones({3, 2}, kOptions);
  const at::Tensor row = at::full({1}, 7, kOptions.dtype(at::kLong));
  at::Tensor rows = at::zeros({1, 2}, kOptions);
  // As a kernel that checks its indices while it runs.
  rows.index_copy_(0, row, table.narrow(0, 0, 1));
  at::Tensor later = rows + 1;
  const std::string text = Thrown([&] { CurrentStream(0).synchronize(); });
  EXPECT_THAT(text, AllOf(HasSubstr("asynchronous error of aten::index_copy"),
                          HasSubstr("the default stream of device 0"), HasSubstr("lookup"),
                          HasSubstr("out of")));
  EXPECT_EQ(Thrown([&] { CurrentStream(0).synchronize(); }), "nothing");
}

TEST_F(Fault, OutOfMemory) {
  const Label label("growing");
  SetMemoryLimit(2, 10 << 20);
  const auto options = kOptions.device(DeviceAt(2));
  const at::Tensor kept = at::zeros({1 << 20}, options);
  at::zeros({1 << 20}, options);  // freed at once, and used again by what follows
  const at::Tensor more = at::zeros({5 << 18}, options);
  EXPECT_EQ(MemoryUseOf(2).in_use, 9U << 20);
  EXPECT_THAT(Thrown([&] { at::zeros({1 << 20}, options); }),
              AllOf(HasSubstr("simulated device 2 is out of memory"), HasSubstr("4194304 bytes"),
                    HasSubstr("growing")));
  EXPECT_THROW(at::zeros({1 << 20}, options), c10::OutOfMemoryError);
  SetMemoryLimit(2, kDeviceBytes);
  EXPECT_EQ(Thrown([&] { at::zeros({1 << 20}, options); }), "nothing");
}

TEST_F(Fault, PinnedMemoryReadBeforeItsCopy) {
  const at::Tensor tensor = at::ones({1000}, kOptions);
  const at::Tensor host = Pinned(1000);
  ASSERT_TRUE(host.is_pinned());
  {
    const ForbidHostSync forbid;
    host.copy_(tensor, true);
  }
  volatile float value = 0;
  EXPECT_DEATH(value = host.data_ptr<float>()[3],
               "pinned memory that it has not waited for: aten::copy_ on the default stream of "
               "device 0 writes it");
  CurrentStream(0).synchronize();
  value = host.data_ptr<float>()[3];
  EXPECT_EQ(value, 1);
}

TEST_F(Fault, PinnedMemoryWrittenDuringItsCopy) {
  const at::Tensor host = Pinned(1000).fill_(3);
  at::Tensor tensor;
  {
    const ForbidHostSync forbid;
    tensor = host.to(DeviceAt(), true);
  }
  EXPECT_EQ(host.data_ptr<float>()[3], 3);
  EXPECT_DEATH(host.data_ptr<float>()[3] = 4, "has not waited for: aten::copy_ .* reads it");
  c10::Event copied(kDeviceType);
  copied.record(CurrentStream(0));
  copied.synchronize();
  host.data_ptr<float>()[3] = 4;
  EXPECT_EQ(tensor.sum().item<float>(), 3000);
}

TEST(Event, KnowsTimes) {
  c10::Event first(kDeviceType, c10::EventFlag::BACKEND_DEFAULT);
  c10::Event second(kDeviceType, c10::EventFlag::BACKEND_DEFAULT);
  first.record(CurrentStream(0));
  at::ones({100}, kOptions).sum();
  second.record(CurrentStream(0));
  second.synchronize();
  EXPECT_GT(first.elapsedTime(second), 0);
  EXPECT_TRUE(second.query());
}

}  // namespace
}  // namespace ddprun::simulated
