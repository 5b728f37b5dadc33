// The host's waits for the device, which a training loop wants to be few.
#pragma once

#include <string>
#include <vector>

#include "tests/trainer/device/place.h"

namespace ddprun::simulated {

enum class HostSyncKind {
  kItem,                // a value to the host
  kCopyToHost,          // that blocks
  kCopyToDevice,        // that blocks: from memory that is not pinned, or that has to be converted
  kSynchronize,         // of an event, a stream or a device
  kEarlierEvent,        // behind which more is queued: the device goes on, so it is never forbidden
  kDataDependentShape,  // nonzero, masked_select
};
std::string NameOf(HostSyncKind kind);

struct HostSync {
  HostSyncKind kind;
  int device;
  std::string operation;
  Place place;
};

// Remembers one; throws DeviceError while they are forbidden. Any thread, as all below.
void NoteHostSync(HostSyncKind kind, int device);

// All since the last call.
std::vector<HostSync> TakeHostSyncs();
// As lines of a message; "" for none.
std::string Described(const std::vector<HostSync>& syncs);

// Until its end every wait of the host for a device, by whatever thread, throws instead.
class ForbidHostSync {
 public:
  ForbidHostSync();  // the thread's current device
  explicit ForbidHostSync(int device);
  ~ForbidHostSync();
  ForbidHostSync(const ForbidHostSync&) = delete;
  ForbidHostSync& operator=(const ForbidHostSync&) = delete;

 private:
  const int device_;
};
// This thread may, within it.
class AllowHostSync {
 public:
  AllowHostSync();
  ~AllowHostSync();
  AllowHostSync(const AllowHostSync&) = delete;
  AllowHostSync& operator=(const AllowHostSync&) = delete;
};

// Operations that ran in order since the last call, though a real device would have queued them:
// LibTorch does not know the shape of their results beforehand. No waits of the host.
std::vector<std::string> TakeInOrderOperations();
void NoteInOrder(const std::string& operation);

}  // namespace ddprun::simulated
