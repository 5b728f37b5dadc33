// Messages from one rank of a node to another, through memory that they share.
//
// A message is copied into a block of the sender's heap at once, so a send does not wait for its
// receiver; the receiver copies it out. Messages between the same two ranks with the same tag
// arrive in the order in which they were sent. Nothing runs in the background: transfers go on
// when one of the calls below is made.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "trainer/comm/futex_wait.h"
#include "trainer/comm/shared_region.h"

namespace ddprun::trainer {

// One rank's. Any thread.
class Mailbox {
 public:
  static constexpr int kAnyRank = -1;

  struct Options {
    int rank = 0;
    std::chrono::nanoseconds spin{0};  // as NodeGroup::Options
  };
  // `region` must outlive it.
  Mailbox(SharedRegion& region, Options options);
  ~Mailbox();

  // One message on its way. Keep it until it is done.
  struct Transfer {
    bool sends = false;
    int peer = 0;  // a receive from kAnyRank: who sent it, once done
    int tag = 0;
    size_t bytes = 0;
    void* data = nullptr;        // where a receive puts it
    std::byte* block = nullptr;  // where a send has put it
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
  struct Message {
    Envelope envelope;
    int from = 0;
  };
  struct Block {
    std::byte* data = nullptr;  // a header, then the message
    size_t capacity = 0;
  };

  void Progress();
  bool Post(Transfer& transfer);
  void TakeArrived(int from);
  void Match(Transfer& receive);
  Block TakeBlock(size_t bytes);
  Error NotCome(const Transfer& transfer) const;

  SharedRegion& region_;
  const Options options_;
  std::atomic<bool> cancelled_ = false;

  std::mutex mutex_;                // guards what follows
  std::list<Handle> sends_;         // that found no room yet
  std::list<Handle> receives_;      // not done
  std::deque<Message> unexpected_;  // arrived, not asked for yet
  std::vector<Block> blocks_;       // in use until the receiver has set their header
};

}  // namespace ddprun::trainer
