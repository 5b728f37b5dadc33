#include "tests/trainer/device/host_sync.h"

#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "tests/trainer/device/graph.h"

namespace ddprun::simulated {
namespace {

std::mutex sync_mutex;
std::vector<HostSync> syncs;
std::set<std::string> in_order;
std::array<std::atomic<int>, kDevices> forbidding = {};
thread_local int allowing = 0;

std::string Line(const HostSync& sync) {
  return NameOf(sync.kind) + " by " + sync.operation + " on device " + std::to_string(sync.device) +
         ", " + sync.place.Text();
}

}  // namespace

std::string NameOf(HostSyncKind kind) {
  switch (kind) {
    case HostSyncKind::kItem:
      return "a value to the host";
    case HostSyncKind::kCopyToHost:
      return "a blocking copy to the host";
    case HostSyncKind::kCopyToDevice:
      return "a blocking copy to the device";
    case HostSyncKind::kSynchronize:
      return "synchronize";
    case HostSyncKind::kEarlierEvent:
      return "an earlier event";
    case HostSyncKind::kDataDependentShape:
      return "a shape that depends on data";
  }
  return "";
}

void NoteHostSync(HostSyncKind kind, int device) {
  RefuseInCapture(device, NameOf(kind));
  HostSync sync = {kind, device, Doing::Operation(), Place()};
  const bool drains = kind != HostSyncKind::kEarlierEvent;
  if (drains && forbidding[static_cast<size_t>(device)] > 0 && allowing == 0) {
    throw DeviceError("the host would wait for the device: " + Line(sync));
  }
  const std::lock_guard lock(sync_mutex);
  syncs.push_back(std::move(sync));
}

std::vector<HostSync> TakeHostSyncs() {
  const std::lock_guard lock(sync_mutex);
  return std::exchange(syncs, {});
}

std::string Described(const std::vector<HostSync>& list) {
  std::string text;
  for (const HostSync& sync : list) text += Line(sync) + "\n";
  return text;
}

ForbidHostSync::ForbidHostSync() : ForbidHostSync(CurrentDevice()) {}

ForbidHostSync::ForbidHostSync(int device) : device_(device) {
  ++forbidding[static_cast<size_t>(device)];
}

ForbidHostSync::~ForbidHostSync() {
  --forbidding[static_cast<size_t>(device_)];
}

AllowHostSync::AllowHostSync() {
  ++allowing;
}

AllowHostSync::~AllowHostSync() {
  --allowing;
}

std::vector<std::string> TakeInOrderOperations() {
  const std::lock_guard lock(sync_mutex);
  const auto names = std::exchange(in_order, {});
  return {names.begin(), names.end()};
}

void NoteInOrder(const std::string& operation) {
  const std::lock_guard lock(sync_mutex);
  in_order.insert(operation);
}

}  // namespace ddprun::simulated
