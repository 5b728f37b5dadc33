// SEAM: messages between ranks of different nodes, tagged and non-blocking. A tag names one sender;
// its messages with one tag arrive in order.
//
// No background thread runs: transfers progress while a thread of the process is in one of the
// calls below.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ddprun::trainer {

// The transport of one process. Any thread may call any method.
class Transport {
 public:
  // All ranks of a job use the same kind. kUcx uses InfiniBand or similar hardware, and loads a
  // library: call Create() after the last fork. kTcp is faster over TCP, and has no such condition.
  enum class Kind { kTcp, kUcx };
  struct Options {
    int rank = 0;
    Kind kind = Kind::kUcx;
    std::vector<std::string> devices = {};  // kUcx: its names ("eth0"); empty: all devices
    std::string own_address = {};           // kTcp: the address at which other nodes reach this one
    std::chrono::nanoseconds spin{0};       // see NodeGroup::Options
  };
  static Result<std::unique_ptr<Transport>> Create(const Options& options);
  // Completes the sends that their receivers take soon.
  virtual ~Transport() = default;

  // Returns the bytes with which other processes connect to this one.
  virtual const std::string& address() const = 0;
  // Sets the addresses of all ranks, by rank. Call it once, before the first message.
  virtual void SetPeers(std::vector<std::string> addresses) = 0;

  struct Request {
    std::atomic<bool> done = false;
    // Valid once done:
    Status status = {};
    size_t bytes = 0;  // of a receive: how many bytes came
  };
  using Handle = std::shared_ptr<Request>;

  // Begins a send. `data` must not change until the request is done; `keeps` can own its memory
  // until then. A done send does not mean that the receiver has the message.
  virtual Handle Send(int to,
                      uint64_t tag,
                      const void* data,
                      size_t bytes,
                      std::shared_ptr<const void> keeps = {}) = 0;
  // Begins a receive into `data`, which has room for `bytes`; a longer message is an error. If the
  // peer's process ends, the receive fails soon if this rank has sent it a message.
  virtual Handle Receive(int from, uint64_t tag, void* data, size_t bytes) = 0;

  // A message that has arrived and for which there is no Receive().
  struct Arrived {
    uint64_t tag = 0;
    size_t bytes = 0;
    void* message = nullptr;
  };
  // Returns the first arrived message whose tag equals `tag` in the bits of `mask`. The caller must
  // then Take() it.
  virtual std::optional<Arrived> Find(uint64_t tag, uint64_t mask) = 0;
  virtual Handle Take(const Arrived& arrived, void* data) = 0;

  // Progresses transfers without waiting. Returns whether any has progressed.
  virtual bool Progress() = 0;
  // Returns the number of requests done so far.
  virtual uint64_t completions() const = 0;
  struct Limits {
    std::chrono::steady_clock::time_point deadline;
    const std::atomic<bool>& cancelled;  // noticed within 20 ms
  };
  // Waits until completions() differs from `seen`. Returns false after a deadline or cancellation.
  virtual bool WaitForCompletion(uint64_t seen, const Limits& limits) = 0;

  // Cancels a running receive. The transport does not touch its data afterwards.
  virtual void Cancel(const Handle& request) = 0;
  // Ends all running and later requests with an error, and no longer touches their data.
  virtual void Abort() = 0;
};

}  // namespace ddprun::trainer
