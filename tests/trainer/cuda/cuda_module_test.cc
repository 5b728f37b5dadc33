#include "trainer/cuda/cuda_module.h"

#include <ATen/Context.h>
#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/failure.h"
#include "trainer/worker/compute_setup.h"
#include "trainer/worker/device_mesh.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

TEST(CudaModule, GivesEachLocalRankItsDevice) {
  EXPECT_EQ(*PickDevice(2, 4, ""), c10::Device(c10::kCUDA, 2));
  const Result<c10::Device> few = PickDevice(2, 2, "");
  ASSERT_FALSE(few.has_value());
  EXPECT_EQ(few.error().title, "TOO FEW GPUS");
  EXPECT_EQ(few.error().where, "local rank 2");
  EXPECT_THAT(few.error().what, HasSubstr("sees 2."));
  const Result<c10::Device> none = PickDevice(0, 0, "initialization error");
  EXPECT_THAT(none.error().what, HasSubstr("CUDA sees no GPU: initialization error"));
}

TEST(CudaModule, SaysWhyAFileCannotBeUsed) {
  const auto what = [](const std::string& path) { return OpenCudaModule(path).error().what; };
  EXPECT_THAT(what("/nowhere/libddprun_cuda.so"), HasSubstr("No such file or directory"));
  const std::string text = testing::TempDir() + "no_module.so";
  std::ofstream(text) << "text";
  EXPECT_THAT(what(text), HasSubstr("file too short"));
  EXPECT_THAT(what(OTHER_LIBRARY), HasSubstr("another library"));
  EXPECT_THAT(what(OTHER_INTERFACE),
              HasSubstr("built with interface " + std::to_string(kCudaModuleAbi + 1) +
                        ", and this ddp-trainer with " + std::to_string(kCudaModuleAbi)));
  EXPECT_THAT(what(OTHER_TORCH), HasSubstr("LibTorch 2.12.0, and this ddp-trainer with "
                                           "LibTorch 2."));
  // The loader's own words name the file that is missing.
  EXPECT_THAT(what(NEEDS_LIBRARY), HasSubstr("cannot open shared object file"));
}

TEST(CudaModule, TellsErrorsOfDevicesAsSuch) {
  const auto told = [](const auto& error) {
    try {
      throw error;
    } catch (...) {
      return CurrentDeviceError([] { return std::string("3.2 GB a rank"); });
    }
  };
  const Error memory = told(
      c10::OutOfMemoryError({__func__, __FILE__, 0}, "Tried to allocate 20.00 GiB. GPU 0 has"));
  EXPECT_EQ(memory.title, "OUT OF GPU MEMORY");
  EXPECT_THAT(memory.what, HasSubstr("Tried to allocate 20.00 GiB. GPU 0 has"));
  EXPECT_THAT(memory.what, EndsWith("estimated to need 3.2 GB a rank."));
  EXPECT_THAT(memory.hint, HasSubstr("per_device_train_batch_size"));
  const Error lost =
      told(c10::AcceleratorError({__func__, __FILE__, 0}, 719, "GPU has fallen off the bus"));
  EXPECT_EQ(lost.title, "GPU FAILED");
  EXPECT_THAT(lost.what, HasSubstr("fallen off the bus"));
  const Error sum = told(c10::DistBackendError({__func__, __FILE__, 0}, "NCCL was aborted"));
  EXPECT_EQ(sum.title, "GPU COLLECTIVE FAILED");
  EXPECT_THAT(sum.what, HasSubstr("NCCL was aborted"));
  EXPECT_EQ(told(std::runtime_error("else")).what, "else");
}

// A module whose groups remember how they were made.
struct FakeGroup : c10d::Backend {
  FakeGroup(int rank, int size, std::string name) : Backend(rank, size), made_as(std::move(name)) {
    for (const char* setting : kSettings) {
      const char* const value = std::getenv(setting);
      settings.emplace_back(value == nullptr ? "none" : value);
    }
  }
  static constexpr std::array kSettings = {"TORCH_NCCL_RETHROW_CUDA_ERRORS",
                                           "TORCH_NCCL_DUMP_ON_TIMEOUT",
                                           "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"};
  std::string made_as;
  std::vector<std::string> settings;  // of the environment, "none" where there is none
};

int devices_seen = 0;

constexpr CudaModule kFake = {
    .abi = kCudaModuleAbi,
    .torch = "",
    .cuda = 13000,
    .count_devices =
        [](std::string& why) {
          why = "none is plugged in";
          return devices_seen;
        },
    .bus_id = [](int device) { return "0000:3" + std::to_string(device) + ":00.0"; },
    .make_group = [](const c10::intrusive_ptr<c10d::Store>& store,
                     int rank,
                     int size,
                     std::chrono::milliseconds,
                     const std::string& name) -> c10::intrusive_ptr<c10d::Backend> {
      store->set("met", "");
      return c10::make_intrusive<FakeGroup>(rank, size, name);
    },
    .make_graph = nullptr};

Mesh MeshOfOne() {
  Mesh mesh;
  mesh.data = mesh.shard = {.group = c10::make_intrusive<FakeGroup>(0, 1, "host")};
  return mesh;
}

std::string Put(const char* device, bool has_module, Mesh& mesh, const RankInfo& rank = {}) {
  const DeviceChoice choice{.module = has_module ? &kFake : nullptr,
                            .required = std::string(device) == "cuda",
                            .note = has_module ? "" : "no module"};
  return PutOnDevices(device, choice, rank, Environment(), std::chrono::seconds(5), mesh);
}

TEST(CudaModule, PutsAxesOnDevices) {
  devices_seen = 2;
  Mesh mesh = MeshOfOne();
  EXPECT_EQ(Put("cuda", true, mesh, {.local_rank = 1}), "");
  EXPECT_EQ(mesh.device, c10::Device(c10::kCUDA, 1));
  EXPECT_EQ(mesh.data.group, mesh.shard.group) << "axes that shared a group share the new one";
  const auto* group = dynamic_cast<const FakeGroup*>(mesh.data.group.get());
  ASSERT_NE(group, nullptr);
  EXPECT_THAT(group->made_as, EndsWith("/data/0"));
  EXPECT_EQ(mesh.tensor.group, nullptr) << "an axis of one needs none";
}

// NCCL's watchdog would end the process first, or wait a minute.
TEST(CudaModule, LeavesItToTheTrainerToTellWhatADeviceDidWrong) {
  devices_seen = 1;
  const auto settings = [] {
    Mesh mesh = MeshOfOne();
    Put("cuda", true, mesh);
    return dynamic_cast<const FakeGroup&>(*mesh.data.group).settings;
  };
  for (const char* name : FakeGroup::kSettings) ::unsetenv(name);
  EXPECT_THAT(settings(), ElementsAre("0", "0", "1000"));
  ::setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", 1);
  EXPECT_THAT(settings(), ElementsAre("0", "1", "1000")) << "what users set stays";
  for (const char* name : FakeGroup::kSettings) ::unsetenv(name);
}

TEST(CudaModule, NamesTheUsersNetworkDevicesToNccl) {
  devices_seen = 1;
  // Returns the two variables after groups were made with DDPRUN_NET_INTERFACE.
  const auto named = [](const std::string& wanted, const char* own_interface = nullptr) {
    ::unsetenv("NCCL_SOCKET_IFNAME");
    ::unsetenv("NCCL_IB_HCA");
    if (own_interface != nullptr) ::setenv("NCCL_SOCKET_IFNAME", own_interface, 1);
    Mesh mesh = MeshOfOne();
    const Environment environment({{"DDPRUN_NET_INTERFACE", wanted}});
    PutOnDevices("cuda", {.module = &kFake, .required = true}, {}, environment,
                 std::chrono::seconds(5), mesh);
    const Environment after = Environment::OfProcess();
    return after.GetOr("NCCL_SOCKET_IFNAME", "none") + " " + after.GetOr("NCCL_IB_HCA", "none");
  };
  EXPECT_EQ(named(""), "none none");
  EXPECT_EQ(named("eth1"), "=eth1 none");
  EXPECT_EQ(named("eth1,mlx5_0:1,ib0,mlx5_2:1"), "=eth1,ib0 =mlx5_0:1,mlx5_2:1");
  EXPECT_EQ(named("eth1", "^docker0"), "^docker0 none") << "what users set stays";
  ::unsetenv("NCCL_SOCKET_IFNAME");
}

TEST(CudaModule, TakesAnotherAttentionThanCudnnsForTextsOfManyLengths) {
  at::Context& context = at::globalContext();
  EXPECT_TRUE(context.userEnabledCuDNNSDP()) << "LibTorch's default";
  SetUpDevices({}, /*lengths_change=*/true);
  EXPECT_FALSE(context.userEnabledCuDNNSDP());
  EXPECT_TRUE(context.userEnabledMemEfficientSDP()) << "takes masks";
  EXPECT_TRUE(context.userEnabledFlashSDP());
  SetUpDevices({}, /*lengths_change=*/false);
  EXPECT_TRUE(context.userEnabledCuDNNSDP());
}

// Code that uses the results of these collectives without a check of it relies on the defaults.
TEST(CudaModule, GetsWorkFromCollectivesThatAreAsynchronousByDefault) {
  EXPECT_TRUE(c10d::BroadcastOptions().asyncOp);
  EXPECT_TRUE(c10d::AllreduceOptions().asyncOp);
  EXPECT_TRUE(c10d::AllgatherOptions().asyncOp);
  EXPECT_TRUE(c10d::ReduceScatterOptions().asyncOp);
  EXPECT_TRUE(c10d::AllToAllOptions().asyncOp);
  EXPECT_TRUE(c10d::BarrierOptions().asyncOp);
}

TEST(CudaModule, KeepsTheCpuWhereNotEveryRankHasAGpu) {
  devices_seen = 0;
  Mesh mesh = MeshOfOne();
  const auto host = mesh.data.group;
  EXPECT_EQ(Put("cpu", false, mesh), "");
  EXPECT_EQ(Put("auto", false, mesh), "no module");
  EXPECT_THAT(Put("auto", true, mesh), HasSubstr("training is on the CPU: CUDA sees no GPU: none "
                                                 "is plugged in"));
  EXPECT_EQ(mesh.device, c10::Device(c10::kCPU));
  EXPECT_EQ(mesh.data.group, host);
  EXPECT_THROW(Put("cuda", true, mesh), Failure);
}

// A group that nobody may call.
struct SilentGroup : c10d::Backend {
  SilentGroup() : Backend(0, 2) {}
};

TEST(CudaModule, AsksNobodyOnOneNodeWithoutGpus) {
  Mesh mesh = MeshOfOne();
  mesh.control = c10::make_intrusive<SilentGroup>();
  EXPECT_EQ(Put("auto", false, mesh, {.world_size = 2, .local_world_size = 2}), "no module");
  // Another node may have some, and has to hear that this one has none.
  EXPECT_ANY_THROW(Put("auto", false, mesh, {.world_size = 2, .local_world_size = 1}));
}

TEST(CudaModule, LooksForTheDevicesOfOneProcess) {
  const c10::Device cpu(c10::kCPU);
  const auto put = [](const std::vector<c10::Device>& devices, const CudaModule* module) {
    Mesh mesh;
    PutOnNamedDevices(devices, "strategy.devices", {.module = module, .required = true}, mesh);
    return mesh.device;
  };
  const auto gpu = [](int index) {
    return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
  };
  devices_seen = 2;
  EXPECT_EQ(put({gpu(1), gpu(0)}, &kFake), gpu(1));
  EXPECT_EQ(put({cpu, cpu}, nullptr), cpu);
  const auto error = [&](const std::vector<c10::Device>& devices) {
    return CheckDevices(&kFake, devices, "strategy.devices").error();
  };
  const Error few = error({gpu(0), gpu(2), gpu(1)});
  EXPECT_EQ(few.title, "TOO FEW GPUS");
  EXPECT_EQ(few.where, "strategy.devices");
  EXPECT_THAT(few.what, HasSubstr("\"cuda:2\" is none of the 2 that this process sees"));
  devices_seen = 0;
  EXPECT_THAT(error({cpu, gpu(0)}).what, HasSubstr("CUDA sees no GPU: none is plugged in"));
  EXPECT_THROW(put({gpu(0)}, nullptr), Failure);
}

TEST(CudaModule, LetsRanksShareADevice) {
  devices_seen = 1;
  Mesh mesh = MeshOfOne();
  const auto host = mesh.data.group;
  const c10::Device shared(c10::kCUDA, 0);
  PutOnNamedDevices({shared}, "run.device", {.module = &kFake, .required = true}, mesh);
  EXPECT_EQ(mesh.device, shared);
  EXPECT_EQ(mesh.data.group, host);
  const std::array missing = {c10::Device(c10::kCUDA, 1)};
  EXPECT_EQ(CheckDevices(&kFake, missing, "run.device").error().where, "run.device");
}

}  // namespace
}  // namespace ddprun::trainer
