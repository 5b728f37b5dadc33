// Messages from one rank to another: on one node through memory that they share, between nodes
// through a Transport.
//
// A message is copied at once, so a send never waits, however many its receiver has not taken. On a
// node the receiver copies it out of the sender's heap; what goes to another node is seen off by a
// thread. Messages between the same two ranks with the same tag arrive in the order in which they
// were sent.
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
#include "trainer/comm/channel.h"
#include "trainer/comm/futex_wait.h"
#include "trainer/comm/node_link.h"
#include "trainer/comm/node_placement.h"
#include "trainer/comm/recording.h"
#include "trainer/comm/shared_region.h"

namespace ddprun::trainer {

// One rank's. Any thread.
class Mailbox {
 public:
  static constexpr int kAnyRank = -1;

  struct Options {
    std::chrono::nanoseconds spin{0};    // as NodeMeeting::Options
    FlightRecorder* recorder = nullptr;  // likewise; is told of what is waited for
    uint16_t recorded_group = 0;         // as NodeMeeting::Options::group
  };
  // `placement`: of the ranks that the calls below name; `region`: that of this node's, by their
  // places, which must outlive it. `wire`: unused with one node.
  Mailbox(SharedRegion& region, NodePlacement placement, GroupWire wire, Options options);
  ~Mailbox();

  struct Message;

  // One message on its way.
  struct Transfer {
    int peer = 0;  // a receive from kAnyRank: who sent it, once done
    int tag = 0;
    size_t bytes = 0;
    void* data = nullptr;               // where a receive puts it
    std::shared_ptr<const void> keeps;  // what `data` is in, until then
    Transport::Handle wire;             // of a receive from another node
    std::shared_ptr<Message> arriving;  // is this receive's, but not whole yet
    bool done = false;
    Status status;
  };
  using Handle = std::shared_ptr<Transfer>;

  // Done when this returns; an Error where no memory is left.
  Handle Send(const void* data, size_t bytes, int to, int tag);
  // Goes on until it is done or given up, also where nobody keeps its handle: `keeps` holds the
  // memory of `data` until then. A message of another size is an error.
  Handle Receive(
      void* data, size_t bytes, int from, int tag, std::shared_ptr<const void> keeps = {});
  // Does what can be done now; whether the transfer is done.
  bool Test(Transfer& transfer);
  // Returns when it is done, or with an Error that says which message did not come.
  Status Wait(Transfer& transfer, Clock::time_point deadline);
  // Ends running and later waits with an error.
  void Cancel() { cancelled_ = true; }

  // From another node, perhaps not whole yet.
  struct WireMessage {
    std::vector<std::byte> data;
    Transport::Handle transfer;
  };
  struct Message {
    Envelope envelope;
    int from = 0;
    std::shared_ptr<WireMessage> wire = {};  // of one from another node
  };

 private:
  struct Block {
    std::byte* data = nullptr;  // a header, then the message
    size_t capacity = 0;
  };

  void Progress();
  std::deque<std::shared_ptr<Message>>::iterator FirstFor(const Transfer& receive);
  void Match(Transfer& receive);
  void Take(Transfer& receive, const Message& message);
  void Record(Recording& recording, const Transfer& receive) const;
  Status GiveUp(Transfer& transfer);
  Block TakeBlock(size_t bytes);
  Error NotCome(const Transfer& transfer) const;
  Error WrongSize(const Transfer& receive, int from, size_t sent) const;
  bool OnThisNode(int rank) const { return placement_.NodeOf(rank) == placement_.node(); }
  int self() const { return placement_.LocalOf(placement_.rank()); }
  std::string TextOf(int rank) const { return "rank " + std::to_string(placement_.NameOf(rank)); }
  std::string SelfText() const { return TextOf(placement_.rank()); }

  void SendByWire(Transfer& transfer, const void* data);
  void SeeOff();
  bool IsForWire(std::list<Handle>::iterator place) const;
  void ReceiveFromWire(Transfer& receive);
  void FinishFromWire(Transfer& receive);
  void TakeFromWire();
  void WaitForWire(uint64_t seen, Clock::time_point deadline);

  SharedRegion& region_;
  const NodePlacement placement_;
  const GroupWire wire_;
  const Options options_;
  std::atomic<bool> cancelled_ = false;

  std::mutex mutex_;                                 // guards what follows
  std::vector<ChannelWriter> writers_;               // by place in the node
  std::vector<ChannelReader> readers_;               // likewise
  std::list<Handle> receives_;                       // not done
  std::deque<std::shared_ptr<Message>> unexpected_;  // arrived, not asked for yet
  std::vector<Block> blocks_;              // in use until the receiver has set their header
  std::deque<Transport::Handle> leaving_;  // to other nodes
  std::condition_variable left_;           // leaving_ has changed, or stopping_
  bool stopping_ = false;
  std::thread escort_;  // sees leaving_ off; started when first needed
};

}  // namespace ddprun::trainer
