#include "trainer/worker/device_mesh.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "base/failure.h"
#include "trainer/comm/bootstrap.h"
#include "trainer/comm/connect_nodes.h"
#include "trainer/config/device_name.h"
#include "trainer/parallel/mesh_collectives.h"

namespace ddprun::trainer {

namespace {

struct PlacedAxis {
  Axis* axis;
  const char* name;
  int stride;             // between the ranks of neighbours
  bool messages = false;  // its group has only messages, and nothing shares it
};

// Variables that LibTorch's NCCL groups read when they are made. They let the training thread, and
// not the watchdog, report a device's error, and switch off the trace, because no rank keeps it.
constexpr std::array<std::array<const char*, 2>, 3> kGroupSettings = {
    {{"TORCH_NCCL_RETHROW_CUDA_ERRORS", "0"},
     {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
     {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1000"}}};

// The devices that the user named for ddprun are those of NCCL, unless the user's own variables say
// otherwise. NCCL takes names after "=" as whole names, others as beginnings of names.
void NameNetworkDevices(const Environment& environment) {
  std::string interfaces, adapters;
  for (const std::string& name : NetworkDevices(environment, /*master=*/"", /*towards_store=*/"")) {
    std::string& list = name.find(':') == std::string::npos ? interfaces : adapters;
    list += (list.empty() ? "=" : ",") + name;
  }
  if (!interfaces.empty()) ::setenv("NCCL_SOCKET_IFNAME", interfaces.c_str(), /*overwrite=*/0);
  if (!adapters.empty()) ::setenv("NCCL_IB_HCA", adapters.c_str(), /*overwrite=*/0);
}

void Place(Mesh& mesh, c10::Device device, const DeviceChoice& choice) {
  mesh.device = device;
  mesh.make_graph = device.is_cuda() ? choice.module->make_graph : nullptr;
}

}  // namespace

void ReplaceGroups(const CudaModule& module,
                   const std::string& prefix,
                   const std::function<c10::intrusive_ptr<c10d::Store>()>& open_store,
                   std::chrono::milliseconds timeout,
                   Mesh& mesh) {
  const int tensor = mesh.tensor.size;
  const PlacedAxis axes[] = {{&mesh.data, "data", tensor},
                             {&mesh.shard, "shard", tensor},
                             {&mesh.replica, "replica", tensor * mesh.shard.size},
                             {&mesh.tensor, "tensor", 1},
                             {&mesh.pipeline, "pipeline", tensor * mesh.data.size},
                             {&mesh.later, "later", tensor * mesh.data.size, /*messages=*/true},
                             {&mesh.earlier, "earlier", tensor * mesh.data.size, true}};
  c10::intrusive_ptr<c10d::Store> store;
  // Axes may share a group, such as the data and the shard axis.
  std::map<const c10d::Backend*, c10::intrusive_ptr<c10d::Backend>> made;
  for (const PlacedAxis& placed : axes) {
    Axis& axis = *placed.axis;
    if (axis.group == nullptr) continue;
    c10::intrusive_ptr<c10d::Backend> of_messages;
    c10::intrusive_ptr<c10d::Backend>& group =
        placed.messages ? of_messages : made[axis.group.get()];
    if (group == nullptr) {
      if (store == nullptr) store = open_store();
      const int first = mesh.world.rank - axis.rank * placed.stride;
      const std::string name = prefix + placed.name + "/" + std::to_string(first);
      group = module.make_group(c10::make_intrusive<c10d::PrefixStore>(name, store), axis.rank,
                                axis.size, timeout, name);
      // Connects before the first collective, because the group gives memory to buckets earlier. A
      // group of messages is not connected as a whole: then each two ranks have a communicator of
      // their own (strategies/device_messages.cc).
      if (!placed.messages) group->eagerConnectSingleDevice(mesh.device);
    }
    axis.group = group;
  }
}

std::string PutOnDevices(const std::string& device,
                         const DeviceChoice& choice,
                         const RankInfo& rank,
                         const Environment& environment,
                         std::chrono::milliseconds timeout,
                         Mesh& mesh) {
  if (device == "cpu") return "";
  // All ranks of a node have equal modules, so one node needs no collective.
  const bool one_node = rank.local_world_size == rank.world_size;
  if (choice.module == nullptr && one_node) return choice.note;
  Result<c10::Device> own = c10::Device(c10::kCPU);
  if (choice.module != nullptr) own = DeviceOf(*choice.module, rank.local_rank);
  if (!own && choice.required) throw Failure(own.error());
  const bool has = own && !own->is_cpu();
  if (!AllRanks(mesh, has)) {
    if (!own) return "there are GPUs, but training is on the CPU: " + own.error().what;
    return has ? "training is on the CPU: not every rank has a GPU of its own" : choice.note;
  }
  Place(mesh, *own, choice);
  for (const auto& [name, value] : kGroupSettings) ::setenv(name, value, /*overwrite=*/0);
  NameNetworkDevices(environment);
  // All ranks make their groups in the same order, so their counters agree.
  static std::atomic<int> generations = 0;
  const std::string prefix = StoreKey(environment, "nccl/" + std::to_string(generations++) + "/");
  const auto open_store = [&]() -> c10::intrusive_ptr<c10d::Store> {
    if (mesh.world.size == 1) return c10::make_intrusive<c10d::HashStore>();
    return job_store(timeout);
  };
  ReplaceGroups(*choice.module, prefix, open_store, timeout, mesh);
  return "";
}

void PutOnNamedDevices(const std::vector<c10::Device>& devices,
                       const std::string& key,
                       const DeviceChoice& choice,
                       Mesh& mesh) {
  ThrowIfError(CheckDevices(choice.module, devices, key));
  Place(mesh, devices.front(), choice);
}

std::string PutOnDeviceOf(const std::string& device,
                          const std::string& key,
                          const DeviceChoice& choice,
                          const RankInfo& rank,
                          const Environment& environment,
                          std::chrono::milliseconds timeout,
                          Mesh& mesh) {
  if (!NamesGpu(device)) return PutOnDevices(device, choice, rank, environment, timeout, mesh);
  PutOnNamedDevices({c10::Device(device)}, key, choice, mesh);
  return "";
}

}  // namespace ddprun::trainer
