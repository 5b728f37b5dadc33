// A blocking client of a c10d TCPStore server (ddprun's or torch's), the key-value store through
// which workers find each other. Unlike torch's client, it has a deadline in every call and never
// asks a name server for the peer's name.
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

// Thread-safe; threads take turns. Keys and values are arbitrary bytes. Keys get a leading "/" on
// the wire, as torch's clients do it, so that both kinds of client see the same names.
//
// Every call blocks at most until its deadline and then fails with kDeadlineExceeded. After any
// other Error every later call fails, because the connection's state is unknown; after a missed
// deadline, too, unless the call was only waiting for a key.
class TcpStore {
 public:
  // Connects (trying again until the deadline) and checks that the peer is a TCPStore.
  static Result<std::unique_ptr<TcpStore>> Connect(const HostPort& server, Deadline deadline);

  // Sends the value and does not wait until the server has stored it: other processes may see it
  // a little later, later calls on this store see it at once. Append and QueuePush do so, too.
  Status Set(std::string_view key, std::string_view value, Deadline deadline);
  Status Append(std::string_view key, std::string_view value, Deadline deadline);
  // Waits for the key, then returns its value.
  Result<std::string> Get(std::string_view key, Deadline deadline);
  // Adds to a decimal counter, which is 0 if absent, and returns the sum.
  Result<int64_t> Add(std::string_view key, int64_t delta, Deadline deadline);
  // Replaces `expected` by `desired` and returns the value afterwards. An empty `expected` also
  // matches an absent key. If the key is absent and `expected` is not empty, stores nothing and
  // returns `expected`, because torch does so and torch elastic relies on it.
  Result<std::string> CompareSet(std::string_view key,
                                 std::string_view expected,
                                 std::string_view desired,
                                 Deadline deadline);
  // Returns when all keys exist.
  Status Wait(std::span<const std::string> keys, Deadline deadline);
  // Returns whether all keys exist now.
  Result<bool> Check(std::span<const std::string> keys, Deadline deadline);
  // Deletes the key. Returns whether it existed.
  Result<bool> Delete(std::string_view key, Deadline deadline);
  // Waits for all keys, then reads their values in one exchange, in the order of `keys`.
  Result<std::vector<std::string>> MultiGet(std::span<const std::string> keys, Deadline deadline);
  // Sends all pairs in one message. REQUIRES: as many values as keys.
  Status MultiSet(std::span<const std::string> keys,
                  std::span<const std::string> values,
                  Deadline deadline);
  // Returns the number of keys on the server, with any prefix.
  Result<int64_t> NumKeys(Deadline deadline);
  // Returns all keys on the server, as they are on the wire: with the leading "/".
  Result<std::vector<std::string>> ListKeys(Deadline deadline);

  // These work on queues of values. Wait() and Check() also find queues; a queue exists while it
  // has elements.
  Status QueuePush(std::string_view key, std::string_view value, Deadline deadline);
  // Removes and returns the oldest element. If there is none, returns nullopt, or waits if `block`.
  Result<std::optional<std::string>> QueuePop(std::string_view key, bool block, Deadline deadline);
  Result<int64_t> QueueLength(std::string_view key, Deadline deadline);

  const HostPort& server() const { return stream_.peer(); }
  // Returns this machine's end of the connection as a literal; "" if it is not known.
  std::string LocalAddress() const { return stream_.LocalAddress(); }
  // Returns the status of a server of ddprun's. Error: page "no-store-status" if it is another one.
  Result<StoreStatus> ServerStatus(Deadline deadline);

 private:
  explicit TcpStore(Stream stream) : stream_(std::move(stream)) {}

  Status Handshake(Deadline deadline);
  // Send a request without an answer, one with an answer, and one after all `keys` exist.
  Status Send(const Request& request, Deadline deadline);
  Result<Reply> Ask(const Request& request, Deadline deadline);
  Result<Reply> AskOnceThere(const std::vector<std::string>& keys,
                             const Request& request,
                             Deadline deadline);
  // Callers of these hold the mutex.
  Status SendLocked(const Request& request, Deadline deadline);
  Result<Reply> Exchange(const Request& request, Deadline deadline);
  Result<Reply> ReadReply(const Request& request, Deadline deadline);
  Status WaitLocked(std::vector<std::string> keys, Deadline deadline);
  Status CancelWait(const std::vector<std::string>& keys);
  Status Usable() const;

  std::mutex mutex_;
  Stream stream_;
  std::string unsent_;    // encoded; sent with the next request
  std::string received_;  // bytes after the last reply
  bool broken_ = false;
};

// Another program has the store's port. `received` has the bytes that came instead of the answer
// to the greeting. StoreConnection uses this error, too.
Error NoStoreThere(const HostPort& peer, std::string_view received);

}  // namespace ddprun::rendezvous
