// A Transport over TCP connections of its own. Internal to its folder.
//
// Each rank has a port. A rank that sends the first message to another opens a connection to it,
// which carries messages this way only; those of the other one come over a second connection. It
// begins with a greeting that names both ranks, and the receiver's cookie: 128 random bits, which
// only those know who have read the receiver's address in the job's store.
#pragma once

#include <list>

#include "base/unique_fd.h"
#include "trainer/comm/net/polled_transport.h"
#include "trainer/comm/net/tcp_frames.h"
#include "trainer/comm/net/tcp_greeting.h"

namespace ddprun::trainer {

class TcpTransport : public PolledTransport {
 public:
  TcpTransport(int rank, std::chrono::nanoseconds spin)
      : PolledTransport(spin), rank_(rank), inbox_(rank) {}
  ~TcpTransport() override;
  // Listens at an own address. Call it before all other methods.
  Status Open(const std::string& own_address);

  const std::string& address() const override { return address_; }
  void SetPeers(std::vector<std::string> addresses) override;
  Handle Send(int to,
              uint64_t tag,
              const void* data,
              size_t bytes,
              std::shared_ptr<const void> keeps = {}) override;
  Handle Receive(int from, uint64_t tag, void* data, size_t bytes) override;
  std::optional<Arrived> Find(uint64_t tag, uint64_t mask) override;
  Handle Take(const Arrived& arrived, void* data) override;
  void Cancel(const Handle& request) override;
  void Abort() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    std::string address;
    UniqueFd out;  // the connection to it
    TcpFrameWriter writer;
    bool connecting = false;
    bool full = false;  // the kernel takes no more at the moment
    // Set when `out` has ended. What the peer sent before that may still come.
    std::optional<Clock::time_point> out_ended;
    std::string why;  // and the reason
    UniqueFd in;      // the connection from it
    TcpFrameReader reader;
    std::string failed;  // the reason; empty: it has not failed
  };
  // A connection that has not said yet from whom it is.
  struct Stranger {
    UniqueFd socket;
    std::string said;
  };

  TcpHandle NewRequest(int peer, uint64_t tag, void* data, size_t room);
  // REQUIRES for the functions below: the caller holds the mutex.
  Peer& At(int rank) { return peers_[static_cast<size_t>(rank)]; }
  void Watch(int socket, uint32_t events, uint64_t key);
  void Connect(int rank);
  void WriteAll();
  void SetFull(int rank, bool full);
  void OnOut(int rank, uint32_t events);
  void OnIn(int rank);
  void AcceptSome();
  void OnStranger(int socket);
  void OutEnded(int rank, int problem);
  void FailPeer(int rank, const std::string& why);
  void FailHalfEndedPeers();
  bool ProgressLocked() override;
  int events() const override { return events_.get(); }

  const int rank_;
  const pid_t owner_ = ::getpid();
  UniqueFd events_;  // epoll
  UniqueFd listener_;
  TcpGreeting::Cookie cookie_{};
  std::string address_;

  // The mutex guards the members below, and the data of requests that run.
  bool aborted_ = false;
  std::vector<Peer> peers_;
  std::vector<int> writing_;  // peers to whom something can be written now
  int half_ended_ = 0;        // peers with `out_ended` that have not failed yet
  std::list<Stranger> strangers_;
  TcpInbox inbox_;
};

}  // namespace ddprun::trainer
