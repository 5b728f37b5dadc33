// The messages between one rank of a group and the ranks with its place on other nodes. Every
// operation begins with an exchange of headers. If an operation fails on one node, this node
// reports the failure at once, so that the others do not wait until their deadline.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/flight_recorder.h"
#include "trainer/comm/net/transport.h"
#include "trainer/comm/node_meeting.h"
#include "trainer/comm/node_placement.h"

namespace ddprun::trainer {

// The connections of a group's ranks across nodes.
struct GroupWire {
  std::shared_ptr<Transport> transport = {};
  uint16_t group = 0;           // below kMaxGroups; different for groups that share two ranks
  std::vector<int> peers = {};  // by rank in the group: its number in the transport
  // The least group number that this process has not used yet.
  std::shared_ptr<std::atomic<int>> next_group = std::make_shared<std::atomic<int>>(1);
};
inline constexpr uint16_t kMaxGroups = 1 << kPartGroupBits;

// A long message travels in pieces. They are small, so that the first one soon arrives, and large,
// so that the fixed cost of a message does not show. Between two hosts at 1 Gbit/s, a window of 4
// times 64 KiB was faster than 8 times 256 KiB, because running pieces share the bandwidth and the
// first one comes later.
inline constexpr size_t kWirePieceBytes = size_t{64} << 10;
// Running pieces: pieces in the network, and pieces that the rank sums meanwhile.
inline constexpr size_t kWireWindow = 4;

enum class WireStream : uint8_t { kHeader, kFailure, kPartial, kResult, kBlocks, kMessage };

// Returns the tag of a message. `from` is the sender's rank in the group, below 65536. `number`
// distinguishes messages of one sender and stream.
uint64_t WireTag(uint16_t group, WireStream stream, int from, uint32_t number);
// The bits of a tag without `from` and `number`.
inline constexpr uint64_t kWireStreamMask = ~uint64_t{0} << 48;
inline int SenderOfTag(uint64_t tag) {
  return static_cast<int>(tag >> 32 & 0xffff);
}

// One rank's link. Only ranks that carry (NodePlacement) have one. One thread at a time. `meeting`
// and `placement` must outlive it.
class NodeLink {
 public:
  NodeLink(GroupWire wire, NodeMeeting& meeting, const NodePlacement& placement);
  ~NodeLink();
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  // Begins the exchange of headers with all other nodes.
  void SendHeaders(const NodeOperation& operation);
  // Waits for the headers of all other nodes, and compares them with this rank's.
  Status AwaitHeaders(const NodeOperation& operation);

  // Begin a message to or from `rank` of the group. It lasts at most until the end of the
  // operation, even if that fails.
  using Handle = Transport::Handle;
  Handle Send(int rank, WireStream stream, uint32_t number, const void* data, size_t bytes);
  Handle Receive(int rank, WireStream stream, uint32_t number, void* data, size_t bytes);

  // Waits until `done()`, which it calls after each message that has come or gone. Returns an Error
  // if one of the operation's messages or another node has failed, and at the deadline.
  template <typename Done>
  Status WaitUntil(const NodeOperation& operation, const Done& done) {
    for (;;) {
      const uint64_t seen = wire_.transport->completions();
      DDPRUN_TRY(Check(operation));
      if (done()) return {};
      DDPRUN_TRY(WaitForNews(operation, seen));
    }
  }
  // Waits for all messages of the operation.
  Status AwaitAll(const NodeOperation& operation);

  // Progresses running messages without waiting.
  void Progress() { wire_.transport->Progress(); }

  // Reports `error` to the other nodes, and ends all running messages. The link is then unusable.
  void Fail(const Error& error);

 private:
  struct FarEnd {
    int rank = 0;
    OperationHeader header{};
    Handle header_receive;
  };
  // A rank of another node that may report a failure. The link always has a receive open for it.
  struct Witness {
    int rank = 0;
    std::array<char, kPackedErrorBytes> failure{};
    Handle receive;
  };

  // Returns the error if a rank of any node was lost, and ranks can be replaced. Waits at most
  // `limit` for the launcher to say so.
  std::optional<Error> LossIn(const NodeOperation& operation,
                              std::chrono::milliseconds limit) const;
  Status CompareHeaders();
  Status Check(const NodeOperation& operation);
  Status WaitForNews(const NodeOperation& operation, uint64_t seen);
  Error TimedOut(const NodeOperation& operation);

  const GroupWire wire_;
  NodeMeeting& meeting_;
  const NodePlacement& placement_;
  std::vector<std::unique_ptr<FarEnd>> far_ends_;    // one on each other node
  std::vector<std::unique_ptr<Witness>> witnesses_;  // all ranks that carry there
  OperationHeader own_header_{};
  std::vector<Handle> running_;  // messages of the operation that may not be done yet
  std::optional<Error> failed_;
};

}  // namespace ddprun::trainer
