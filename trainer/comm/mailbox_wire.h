// The messages of a Mailbox to and from other nodes.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "trainer/comm/futex_wait.h"
#include "trainer/comm/node_link.h"

namespace ddprun::trainer {

// The caller holds `mutex`, the mailbox's, in all methods but Finish() and WaitForNews(). `rank` is
// this rank's number in the group. With one node, only Finish() may be called.
class MailboxWire {
 public:
  MailboxWire(GroupWire wire, int rank, std::mutex& mutex)
      : wire_(std::move(wire)), rank_(rank), mutex_(mutex) {}

  // A message that has arrived. From another node, it may not be complete yet.
  struct Message {
    Envelope envelope;
    int from = 0;
    std::vector<std::byte> data = {};  // from another node
    Transport::Handle transfer = {};   // nullptr: from this node
  };

  // Sends a copy. The message is done for the caller, even if it has not left yet.
  Status Send(const void* data, size_t bytes, int to, int tag);
  // Begins a receive directly into `data`.
  Transport::Handle Receive(void* data, size_t bytes, int from, int tag);
  // Appends the messages that no Receive() has asked for.
  void TakeOthers(std::deque<std::shared_ptr<Message>>& messages);
  void Cancel(const Transport::Handle& receive) { wire_.transport->Cancel(receive); }
  uint64_t completions() const { return wire_.transport->completions(); }
  // Waits for the next completion, but not long, because messages from this node do not end it.
  void WaitForNews(uint64_t seen, Clock::time_point deadline, const std::atomic<bool>& cancelled);
  // Waits a few seconds for messages that have not left. Must be called before the destructor.
  void Finish();

 private:
  void SeeOff();

  const GroupWire wire_;
  const int rank_;
  std::mutex& mutex_;
  std::deque<Transport::Handle> leaving_;  // sends
  std::condition_variable left_;           // leaving_ has changed, or stopping_
  bool stopping_ = false;
  std::thread escort_;  // completes leaving_; the first send starts it
};

}  // namespace ddprun::trainer
