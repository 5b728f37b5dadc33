// What one rank of a group says to, and hears from, the ranks with its place on other nodes.
// Every operation begins with an exchange of headers; when something fails on one node, the others
// are told at once instead of at their deadline.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/flight_recorder.h"
#include "trainer/comm/net/transport.h"
#include "trainer/comm/node_meeting.h"
#include "trainer/comm/node_placement.h"

namespace ddprun::trainer {

// How the ranks of a group reach each other across nodes.
struct GroupWire {
  std::shared_ptr<Transport> transport = {};
  uint16_t group = 0;  // below kMaxGroups; no two groups that share two ranks have the same
  std::vector<int> peers = {};  // by rank in the group: the transport's number
  // The least number that no group of this process has had yet.
  std::shared_ptr<std::atomic<int>> next_group = std::make_shared<std::atomic<int>>(1);
};
inline constexpr uint16_t kMaxGroups = 1 << kPartGroupBits;

enum class WireStream : uint8_t { kHeader, kFailure, kPartial, kResult, kBlocks, kMessage };

// `from`: rank in the group, below 65536. `number`: what else tells messages apart.
uint64_t WireTag(uint16_t group, WireStream stream, int from, uint32_t number);
// All of the tag but `from` and `number`.
inline constexpr uint64_t kWireStreamMask = ~uint64_t{0} << 48;
inline int FromOfTag(uint64_t tag) {
  return static_cast<int>(tag >> 32 & 0xffff);
}

// One rank's; only ranks that carry (NodePlacement) use it. One thread at a time. `meeting` and
// `placement` must outlive it.
class NodeLink {
 public:
  NodeLink(GroupWire wire, NodeMeeting& meeting, const NodePlacement& placement);
  ~NodeLink();
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  // Begins the exchange of headers, with all other nodes.
  void SendHeaders(const NodeOperation& operation);
  // Waits for its end, and compares.
  Status AwaitHeaders(const NodeOperation& operation);

  // `rank`: of the group. All of an operation's are over when it ends, well or not.
  using Handle = Transport::Handle;
  Handle Send(int rank, WireStream stream, uint32_t number, const void* data, size_t bytes);
  Handle Receive(int rank, WireStream stream, uint32_t number, void* data, size_t bytes);

  // Until `done()`, which is asked whenever a message has come or gone. An Error when one of the
  // operation's messages has failed, when another node has, and at the deadline.
  template <typename Done>
  Status WaitUntil(const NodeOperation& operation, const Done& done) {
    for (;;) {
      const uint64_t seen = wire_.transport->completions();
      DDPRUN_TRY(Check(operation));
      if (done()) return {};
      DDPRUN_TRY(WaitForNews(operation, seen));
    }
  }
  // For all messages of the operation.
  Status AwaitAll(const NodeOperation& operation);

  // Does for messages that are under way what can be done now.
  void Progress() { wire_.transport->Progress(); }

  // Tells the other nodes, and ends all that is under way. Nothing works afterwards.
  void Fail(const Error& error);

 private:
  struct FarEnd {
    int rank = 0;
    OperationHeader header{};
    Handle header_receive;
  };
  // A rank of another node that may have to tell of a failure; always listened to.
  struct Witness {
    int rank = 0;
    std::array<char, kPackedErrorBytes> failure{};
    Handle receive;
  };

  Status CompareHeaders();
  Status Check(const NodeOperation& operation);
  Status WaitForNews(const NodeOperation& operation, uint64_t seen);
  Error TimedOut(const NodeOperation& operation);

  const GroupWire wire_;
  NodeMeeting& meeting_;
  const NodePlacement& placement_;
  std::vector<std::unique_ptr<FarEnd>> far_ends_;    // one on each other node
  std::vector<std::unique_ptr<Witness>> witnesses_;  // all that carry there
  OperationHeader own_header_{};
  std::vector<Handle> running_;  // of the operation, as far as known
  std::optional<Error> failed_;
};

}  // namespace ddprun::trainer
