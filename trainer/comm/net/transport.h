// Messages between ranks of different nodes: tagged, not blocking, in order between two ranks with
// one tag. Over UCX: InfiniBand and the like where there is any, otherwise TCP.
//
// Nothing runs in the background: transfers go on while some thread of the process is in one of
// the calls below. UCX is loaded when the first Transport is made.
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

// One process's. Any thread may call any method.
class Transport {
 public:
  struct Options {
    int rank = 0;
    std::vector<std::string> devices = {};  // UCX's names ("eth0"); empty: all that there are
    std::chrono::nanoseconds spin{0};       // as NodeGroup::Options
  };
  static Result<std::unique_ptr<Transport>> Create(const Options& options);
  // Sees its sends through, as far as their receivers take them soon.
  virtual ~Transport() = default;

  // Bytes from which other processes connect to this one.
  virtual const std::string& address() const = 0;
  // Of every rank, by rank. Once, before the first message.
  virtual void SetPeers(std::vector<std::string> addresses) = 0;

  struct Request {
    std::atomic<bool> done = false;
    // Valid once done:
    Status status = {};
    size_t bytes = 0;  // of a receive: how many came
  };
  using Handle = std::shared_ptr<Request>;

  // `data` must stay as it is until the request is done, which `keeps` can see to; its receiver may
  // have it later.
  virtual Handle Send(int to,
                      uint64_t tag,
                      const void* data,
                      size_t bytes,
                      std::shared_ptr<const void> keeps = {}) = 0;
  // Room for `bytes`; a longer message is an error. Fails soon if the peer's process goes away,
  // once this rank has sent it something.
  virtual Handle Receive(int from, uint64_t tag, void* data, size_t bytes) = 0;

  // A message that has arrived and for which there is no Receive().
  struct Arrived {
    uint64_t tag = 0;
    size_t bytes = 0;
    void* message = nullptr;
  };
  // The first whose tag has these bits where `mask` has ones; it must then be taken.
  virtual std::optional<Arrived> Find(uint64_t tag, uint64_t mask) = 0;
  virtual Handle Take(const Arrived& arrived, void* data) = 0;

  // Does what can be done now. True: something was.
  virtual bool Progress() = 0;
  // Requests that have become done so far.
  virtual uint64_t completions() const = 0;
  struct Limits {
    std::chrono::steady_clock::time_point deadline;
    const std::atomic<bool>& cancelled;  // noticed within 20 ms
  };
  // Returns when completions() is not `seen` any more; false when the limits came first.
  virtual bool WaitForCompletion(uint64_t seen, const Limits& limits) = 0;

  // Ends a request that is under way; its data is not touched any more. Receives only.
  virtual void Cancel(const Handle& request) = 0;
  // Ends all that is under way, and every later request, with an error; the data of requests is
  // not touched any more.
  virtual void Abort() = 0;
};

}  // namespace ddprun::trainer
