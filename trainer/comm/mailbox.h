// Messages between ranks: through shared memory on one node, through a Transport between nodes.
//
// Send() copies a message at once, so that it never waits, even if the receiver has not taken
// earlier messages. On a node the receiver copies the message out of the sender's heap; a thread
// drives the transport until messages to other nodes have left. Messages between two ranks with one
// tag arrive in the order of the sends.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainer/comm/channel.h"
#include "trainer/comm/futex_wait.h"
#include "trainer/comm/mailbox_wire.h"
#include "trainer/comm/node_placement.h"
#include "trainer/comm/recording.h"
#include "trainer/comm/shared_region.h"

namespace ddprun::trainer {

// The mailbox of one rank. Any thread.
class Mailbox {
 public:
  static constexpr int kAnyRank = -1;

  struct Options {
    std::chrono::nanoseconds spin{0};    // see NodeMeeting::Options
    FlightRecorder* recorder = nullptr;  // nullptr: none; records waits
    uint16_t recorded_group = 0;         // see NodeMeeting::Options::group
  };
  // `placement`: of the ranks that the calls below name. `region`: the memory of this node's ranks,
  // by their places in the node; must outlive the mailbox. `wire`: unused with one node.
  Mailbox(SharedRegion& region, NodePlacement placement, GroupWire wire, Options options);
  ~Mailbox();

  using Message = MailboxWire::Message;

  // One send or receive.
  struct Transfer {
    int peer = 0;  // of a receive from kAnyRank, when done: the sender
    int tag = 0;
    size_t bytes = 0;
    void* data = nullptr;               // where a receive copies the message
    std::shared_ptr<const void> keeps;  // owns the memory of `data` until then
    Transport::Handle wire;             // the request of a receive from another node
    std::shared_ptr<Message> arriving;  // this receive's message, not complete yet
    bool done = false;
    Status status;
  };
  using Handle = std::shared_ptr<Transfer>;

  // Sends a message. The transfer is done when Send() returns, with an Error if no memory is left.
  Handle Send(const void* data, size_t bytes, int to, int tag);
  // Begins a receive, which stays active until it is done or Wait() gives it up, even if its caller
  // drops the handle. `keeps` owns the memory of `data` until then. Another size is an error.
  Handle Receive(
      void* data, size_t bytes, int from, int tag, std::shared_ptr<const void> keeps = {});
  // Progresses all receives without waiting. Returns whether the transfer is done.
  bool Test(Transfer& transfer);
  // Waits until the transfer is done. If it is not done by the deadline, returns an Error that
  // names the missing message.
  Status Wait(Transfer& transfer, Clock::time_point deadline);
  // Ends running and later waits with an error.
  void Cancel();

 private:
  struct Block {
    std::byte* data = nullptr;  // a header, then the message
    size_t capacity = 0;
  };

  // Returns the receives that are done, for the caller to drop without the mutex: to free their
  // tensors, the thread may have to wait for Python's lock, whose holder may wait for the mutex.
  [[nodiscard]] std::list<Handle> Progress();
  bool IsForWire(std::list<Handle>::iterator place) const;
  void FinishFromWire(Transfer& receive);
  std::deque<std::shared_ptr<Message>>::iterator FirstFor(const Transfer& receive);
  void Match(Transfer& receive);
  void Take(Transfer& receive, const Message& message);
  void Record(Recording& recording, const Transfer& receive) const;
  Status GiveUp(Transfer& transfer);
  Block TakeBlock(size_t bytes);
  // Frees released blocks, the longest unused first, until at most `keep` bytes of them are left.
  void FreeBlocks(size_t keep);
  // Returns the rank because of whose end no message from `peer` can come. A receive from any rank
  // is lost if a rank ended without Cancel(), or if all other ranks ended.
  std::optional<int> LostFor(int peer) const;
  Error NotCome(const Transfer& transfer) const;
  Error WrongSize(const Transfer& receive, int from, size_t sent) const;
  bool OnThisNode(int rank) const { return placement_.NodeOf(rank) == placement_.node(); }
  int self() const { return placement_.LocalOf(placement_.rank()); }
  std::string TextOf(int rank) const { return "rank " + std::to_string(placement_.NameOf(rank)); }
  std::string SelfText() const { return TextOf(placement_.rank()); }

  SharedRegion& region_;
  const NodePlacement placement_;
  const Options options_;
  std::atomic<bool> cancelled_ = false;

  std::mutex mutex_;  // guards the members below
  MailboxWire wire_;
  std::vector<ChannelWriter> writers_;               // by place in the node
  std::vector<ChannelReader> readers_;               // by place in the node
  std::list<Handle> receives_;                       // not done
  std::deque<std::shared_ptr<Message>> unexpected_;  // arrived before their receive
  std::vector<Block> blocks_;                        // by their last use; the receiver sets their
                                                     // header when they are free
};

}  // namespace ddprun::trainer
