// Brings the messages that arrive together with the receives of a transport. Internal to its
// folder.
#pragma once

#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "trainer/comm/net/transport.h"

namespace ddprun::trainer {

// A send or a receive.
struct TcpRequest : Transport::Request {
  int peer = -1;  // -1: any
  uint64_t tag = 0;
  std::byte* data = nullptr;  // a send only reads it
  size_t room = 0;            // bytes at `data`
  std::shared_ptr<const void> keeps = {};
  std::atomic<uint64_t>* completions = nullptr;

  void Finish(Status result, size_t count);
};
using TcpHandle = std::shared_ptr<TcpRequest>;

// A message that arrives, or that has arrived before its receive.
struct TcpMessage {
  int from = 0;
  uint64_t tag = 0;
  size_t bytes = 0;
  TcpHandle receive = {};
  std::unique_ptr<std::byte[]> kept = {};  // if it came before its receive
  bool here = false;                       // whole

  // Returns where the data goes; nullptr means that nobody wants it.
  std::byte* data() const { return kept || !receive ? kept.get() : receive->data; }
};

// Not thread-safe.
class TcpInbox {
 public:
  using Message = std::shared_ptr<TcpMessage>;
  explicit TcpInbox(int rank) : rank_(rank) {}

  // A message begins to arrive, or is whole. One sender's messages come one after the other.
  Message Begin(int from, uint64_t tag, size_t bytes);
  void End(const Message& message);

  // Takes a receive, which may then be done.
  void Post(const TcpHandle& receive);
  // See Transport. A message that Find() has returned belongs to the caller until Take().
  std::optional<Transport::Arrived> Find(uint64_t tag, uint64_t mask);
  void Take(const Transport::Arrived& arrived, const TcpHandle& receive);
  void Cancel(const TcpHandle& receive, const Status& status);
  // Ends the receives from a rank; -1 means all ranks. Whole messages stay.
  void Fail(int from, const Status& status);

 private:
  void Attach(TcpMessage& message, const TcpHandle& receive) const;
  static void Deliver(TcpMessage& message);

  const int rank_;
  std::unordered_map<int, std::list<TcpHandle>> posted_;  // by sender, in their order
  std::list<Message> early_;                              // messages without a receive
  std::list<Message> arriving_;                           // at most one of each sender
  std::list<Message> found_;
};

}  // namespace ddprun::trainer
