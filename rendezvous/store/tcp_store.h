// The key-value store through which the processes of a job find each other, as a worker sees it:
// client of a c10d TCPStore server (ours or torch's), blocking. Unlike torch's own client it has a
// deadline everywhere and never asks a name server for the peer's name.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rendezvous/net/socket.h"
#include "rendezvous/store/store_status.h"
#include "rendezvous/store/wire.h"

namespace ddprun::rendezvous {

// Thread-safe: one exchange at a time. Keys and values are arbitrary bytes; keys get torch's
// leading "/", so that torch clients of the same server see them under the same name. Every call
// blocks at most until its deadline and then fails with kDeadlineExceeded. After an Error other
// than that of a wait every later call fails: the connection's state is unknown.
class TcpStore {
 public:
  // Connects (trying again until the deadline) and checks that the peer is a TCPStore.
  static Result<std::unique_ptr<TcpStore>> Connect(const HostPort& server, Deadline deadline);

  // Stores the value. Returns when it is on its way: other processes may see it a little later,
  // later calls on this store see it at once. Append and QueuePush, too.
  Status Set(std::string_view key, std::string_view value, Deadline deadline);
  Status Append(std::string_view key, std::string_view value, Deadline deadline);
  // Waits for the key, then gives its value.
  Result<std::string> Get(std::string_view key, Deadline deadline);
  // Adds to a decimal counter (0 when absent) and gives the sum.
  Result<int64_t> Add(std::string_view key, int64_t delta, Deadline deadline);
  // Replaces `expected` by `desired` (an empty `expected` also matches an absent key) and gives
  // the value afterwards. When the key is absent and `expected` is not empty nothing is stored
  // and `expected` comes back: torch's rule, on which torch elastic relies.
  Result<std::string> CompareSet(std::string_view key,
                                 std::string_view expected,
                                 std::string_view desired,
                                 Deadline deadline);
  // Returns once all keys exist.
  Status Wait(std::span<const std::string> keys, Deadline deadline);
  // Whether all keys exist now.
  Result<bool> Check(std::span<const std::string> keys, Deadline deadline);
  // Whether the key existed.
  Result<bool> Delete(std::string_view key, Deadline deadline);
  // Waits for all keys, then gives their values in that order, in one exchange.
  Result<std::vector<std::string>> MultiGet(std::span<const std::string> keys, Deadline deadline);
  // All pairs in one message. REQUIRES: as many values as keys.
  Status MultiSet(std::span<const std::string> keys,
                  std::span<const std::string> values,
                  Deadline deadline);
  // Number of keys of the server, whatever their prefix.
  Result<int64_t> NumKeys(Deadline deadline);
  // All keys of the server, as they are on the wire: with the leading "/".
  Result<std::vector<std::string>> ListKeys(Deadline deadline);

  // Queues of values; they share their names with keys, and a queue exists while it has elements.
  Status QueuePush(std::string_view key, std::string_view value, Deadline deadline);
  // The oldest element. Where there is none: nullopt, or with `block` waits for one.
  Result<std::optional<std::string>> QueuePop(std::string_view key, bool block, Deadline deadline);
  Result<int64_t> QueueLength(std::string_view key, Deadline deadline);

  const HostPort& server() const { return stream_.peer(); }
  // This machine's address, as a literal, on the way to the server; empty if it is not known.
  std::string LocalAddress() const { return stream_.LocalAddress(); }
  // What a server of ddprun's tells about itself; an Error (page "no-store-status") from others.
  Result<StoreStatus> ServerStatus(Deadline deadline);

 private:
  explicit TcpStore(Stream stream) : stream_(std::move(stream)) {}

  Status Handshake(Deadline deadline);
  // Requests without an answer, with one, and with one once all `keys` are there.
  Status Tell(const Request& request, Deadline deadline);
  Result<Reply> Ask(const Request& request, Deadline deadline);
  Result<Reply> AskOnceThere(const std::vector<std::string>& keys,
                             const Request& request,
                             Deadline deadline);
  // The mutex is held by the callers of these.
  Status Send(const Request& request, Deadline deadline);
  Result<Reply> Exchange(const Request& request, Deadline deadline);
  Result<Reply> ReadReply(const Request& request, Deadline deadline);
  Status WaitLocked(std::vector<std::string> keys, Deadline deadline);
  Status CancelWait(const std::vector<std::string>& keys);
  Status Usable() const;

  std::mutex mutex_;
  Stream stream_;
  std::string unsent_;    // encoded, to go out with the next request
  std::string received_;  // bytes after the last reply
  bool broken_ = false;
};

// Also for other clients: another program has the port. `received`: what came instead of the answer
// to the greeting.
Error NoStoreThere(const HostPort& peer, std::string_view received);

}  // namespace ddprun::rendezvous
