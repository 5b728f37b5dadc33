// The host's waits for the device, of which a training loop should have few.
#pragma once

#include <string>
#include <vector>

#include "tests/trainer/device/place.h"

namespace ddprun::simulated {

enum class HostSyncKind {
  kItem,                // reading a value
  kCopyToHost,          // a copy that blocks
  kCopyToDevice,        // a copy that blocks: memory is not pinned, or has to be converted
  kSynchronize,         // waiting for an event, a stream or a device
  kEarlierEvent,        // as kSynchronize, but more work is queued: never forbidden
  kDataDependentShape,  // nonzero, masked_select
};
std::string NameOf(HostSyncKind kind);

struct HostSync {
  HostSyncKind kind;
  int device;
  std::string operation;
  Place place;
};

// Records a wait; throws DeviceError while waits are forbidden. This and all below: any thread.
void NoteHostSync(HostSyncKind kind, int device);

// Returns all waits since the last call.
std::vector<HostSync> TakeHostSyncs();
// Returns the lines of a message; "" if there are no waits.
std::string Described(const std::vector<HostSync>& syncs);

// While it lives, each wait of the host for the device throws, on any thread.
class ForbidHostSync {
 public:
  ForbidHostSync();  // for the thread's current device
  explicit ForbidHostSync(int device);
  ~ForbidHostSync();
  ForbidHostSync(const ForbidHostSync&) = delete;
  ForbidHostSync& operator=(const ForbidHostSync&) = delete;

 private:
  const int device_;
};
// While it lives, this thread may wait.
class AllowHostSync {
 public:
  AllowHostSync();
  ~AllowHostSync();
  AllowHostSync(const AllowHostSync&) = delete;
  AllowHostSync& operator=(const AllowHostSync&) = delete;
};

// Returns operations since the last call that ran at once although a real device would queue them,
// because LibTorch does not know the shapes of their results. They are not waits of the host.
std::vector<std::string> TakeInOrderOperations();
void NoteInOrder(const std::string& operation);

}  // namespace ddprun::simulated
