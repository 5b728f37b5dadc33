// Messages from one rank to another: on one node through memory that they share, between nodes
// through a Transport.
//
// A message is copied at once, so a send does not wait for its receiver. On a node the receiver
// copies it out of the sender's heap; what goes to another node is seen off by a thread. Messages
// between the same two ranks with the same tag arrive in the order in which they were sent.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "trainer/comm/futex_wait.h"
#include "trainer/comm/node_link.h"
#include "trainer/comm/node_placement.h"
#include "trainer/comm/shared_region.h"

namespace ddprun::trainer {

// One rank's. Any thread.
class Mailbox {
 public:
  static constexpr int kAnyRank = -1;

  struct Options {
    std::chrono::nanoseconds spin{0};  // as NodeGroup::Options
  };
  // `placement`: of the ranks that the calls below name; `region`: that of this node's, by their
  // places, which must outlive it. `wire`: unused with one node.
  Mailbox(SharedRegion& region, NodePlacement placement, GroupWire wire, Options options);
  ~Mailbox();

  // One message on its way. Keep it until it is done.
  struct Transfer {
    bool sends = false;
    int peer = 0;  // a receive from kAnyRank: who sent it, once done
    int tag = 0;
    size_t bytes = 0;
    void* data = nullptr;        // where a receive puts it
    std::byte* block = nullptr;  // where a send has put it
    Transport::Handle wire;      // of a receive from another node
    bool done = false;
    Status status;
  };
  using Handle = std::shared_ptr<Transfer>;

  Handle Send(const void* data, size_t bytes, int to, int tag);
  // `data` must stay until the transfer is done. A message of another size is an error.
  Handle Receive(void* data, size_t bytes, int from, int tag);
  // Does what can be done now; whether the transfer is done.
  bool Test(Transfer& transfer);
  // Returns when it is done, or with an Error that says which message did not come.
  Status Wait(Transfer& transfer, Clock::time_point deadline);
  // Ends running and later waits with an error.
  void Cancel() { cancelled_ = true; }

 private:
  // On its way to or from another node.
  struct WireMessage {
    std::vector<std::byte> data;
    Transport::Handle transfer;
  };
  struct Message {
    Envelope envelope;
    int from = 0;
    std::shared_ptr<WireMessage> wire = {};  // of one from another node
  };
  struct Block {
    std::byte* data = nullptr;  // a header, then the message
    size_t capacity = 0;
  };

  void Progress();
  bool Post(Transfer& transfer);
  void TakeArrived(int from);
  std::deque<Message>::iterator FirstFor(const Transfer& receive);
  bool HasArrived(const Transfer& receive);
  void Match(Transfer& receive);
  Status GiveUp(Transfer& transfer);
  Block TakeBlock(size_t bytes);
  Error NotCome(const Transfer& transfer) const;
  Error WrongSize(const Transfer& receive, int from, size_t sent) const;
  bool OnThisNode(int rank) const { return placement_.NodeOf(rank) == placement_.node(); }
  int self() const { return placement_.LocalOf(placement_.rank()); }
  std::string SelfText() const { return "rank " + std::to_string(placement_.rank()); }

  void SendByWire(Transfer& transfer, const void* data);
  void SeeOff();
  void FinishFromWire(Transfer& receive);
  void TakeFromWire();
  void WaitForWire(uint64_t seen, Clock::time_point deadline);

  SharedRegion& region_;
  const NodePlacement placement_;
  const GroupWire wire_;
  const Options options_;
  std::atomic<bool> cancelled_ = false;

  std::mutex mutex_;                // guards what follows
  std::list<Handle> sends_;         // that found no room yet
  std::list<Handle> receives_;      // not done
  std::deque<Message> unexpected_;  // arrived, not asked for yet
  std::vector<Block> blocks_;       // in use until the receiver has set their header
  std::deque<std::shared_ptr<WireMessage>> leaving_;  // to other nodes
  std::condition_variable left_;                      // leaving_ has changed, or stopping_
  bool stopping_ = false;
  std::thread escort_;  // sees leaving_ off; started when first needed
};

}  // namespace ddprun::trainer
