// Client of a c10d TCPStore server (ours or torch's), blocking, for workers. Unlike torch's own
// client it has a deadline everywhere and never asks a name server for the peer's name.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "rendezvous/net/socket.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/store_status.h"
#include "rendezvous/store/wire.h"

namespace ddprun::rendezvous {

// Thread-safe: one exchange at a time. Keys get torch's leading "/", so that torch clients of the
// same server see them under the same name. After an Error other than kDeadlineExceeded of a
// wait, every later call fails: the connection's state is unknown.
class TcpStore : public Store {
 public:
  // Connects (trying again until the deadline) and checks that the peer is a TCPStore.
  static Result<std::unique_ptr<TcpStore>> Connect(const HostPort& server, Deadline deadline);

  Status Set(std::string_view key, std::string_view value, Deadline deadline) override;
  Result<std::string> Get(std::string_view key, Deadline deadline) override;
  Result<int64_t> Add(std::string_view key, int64_t delta, Deadline deadline) override;
  Result<std::string> CompareSet(std::string_view key,
                                 std::string_view expected,
                                 std::string_view desired,
                                 Deadline deadline) override;
  Status Wait(std::span<const std::string> keys, Deadline deadline) override;
  Result<bool> Check(std::span<const std::string> keys, Deadline deadline) override;
  Result<bool> Delete(std::string_view key, Deadline deadline) override;
  Result<std::vector<std::string>> MultiGet(std::span<const std::string> keys,
                                            Deadline deadline) override;
  Status MultiSet(std::span<const std::string> keys,
                  std::span<const std::string> values,
                  Deadline deadline) override;
  Result<int64_t> NumKeys(Deadline deadline) override;

  // All keys of the server, as they are on the wire: with the leading "/".
  Result<std::vector<std::string>> ListKeys(Deadline deadline);
  // This machine's address, as a literal, on the way to the server; empty if it is not known.
  std::string LocalAddress() const { return stream_.LocalAddress(); }
  // What a server of ddprun's tells about itself; an Error (page "no-store-status") from others.
  Result<StoreStatus> ServerStatus(Deadline deadline);

 private:
  explicit TcpStore(Stream stream) : stream_(std::move(stream)) {}

  Status Handshake(Deadline deadline);
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

}  // namespace ddprun::rendezvous
