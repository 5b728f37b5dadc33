#include "trainer/comm/net/tcp_transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <asio/ip/tcp.hpp>

#include "base/check.h"
#include "rendezvous/net/socket.h"
#include "trainer/comm/net/transport_errors.h"

namespace ddprun::trainer {

namespace {

// Time in which the last messages of a peer arrive whose other connection has ended.
constexpr std::chrono::milliseconds kLastMessages{500};
// A host that does not answer for so long is gone.
constexpr std::chrono::seconds kMostSilence{30};
constexpr int kBacklog = 4096;
constexpr int kEventsAtOnce = 64;
constexpr size_t kMostStrangers = 256;
// A message up to this size is written by Send() itself. Longer ones take turns with the reading.
constexpr size_t kAtOnceBytes = size_t{16} << 10;

// The keys of events: what has happened in the upper half, a rank or a socket in the lower.
enum class Source : uint64_t { kListener, kOut, kIn, kStranger };
uint64_t KeyOf(Source source, int number) {
  return static_cast<uint64_t>(source) << 32 | static_cast<uint32_t>(number);
}

// Ends an idle connection if the other host does not answer. Each rank has such a connection from
// every rank that has sent to it. TCP_USER_TIMEOUT would also end one to a rank that computes for
// long and does not read meanwhile, although its kernel answers.
void TuneConnection(int socket) {
  rendezvous::TuneConnection(socket, kMostSilence);
  const int none = 0;
  (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof none);
}

std::string ReasonOf(int problem) {
  if (problem == TcpFrameReader::kEnded) return "the rank has closed the connection";
  if (problem != ETIMEDOUT) return ErrnoText(problem);
  return "nothing was heard from its host for " + std::to_string(kMostSilence.count()) + " s";
}

Error CannotListen(const std::string& address, int problem) {
  return Error{.title = "NO PORT FOR RANKS",
               .what = "A port on " + address + ", at which the ranks of other nodes connect to " +
                       "this one, cannot be opened: " + ErrnoText(problem) + ".",
               .hint = "--network_interface names another network.",
               .page = "no-port-for-ranks"};
}

}  // namespace

Status TcpTransport::Open(const std::string& own_address) {
  asio::error_code bad;
  const asio::ip::tcp::endpoint own(asio::ip::make_address(own_address, bad), 0);
  if (bad) return CannotListen("\"" + own_address + "\"", EINVAL);
  constexpr int kType = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  listener_.reset(::socket(own.protocol().family(), kType, 0));
  events_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!listener_.valid() || !events_.valid() ||
      ::bind(listener_.get(), own.data(), static_cast<socklen_t>(own.size())) != 0 ||
      ::listen(listener_.get(), kBacklog) != 0) {
    return CannotListen(own_address, errno);
  }
  Watch(listener_.get(), EPOLLIN, KeyOf(Source::kListener, 0));
  cookie_ = TcpGreeting::NewCookie();
  const uint16_t port = rendezvous::EndOf(listener_.get(), ::getsockname).port;
  address_ = TcpAddress{.host = own_address, .port = port, .cookie = cookie_}.ToText();
  return {};
}

TcpTransport::~TcpTransport() {
  const Clock::time_point end = Clock::now() + kFarewell;
  const std::lock_guard lock(mutex_);
  const auto busy = [&] {
    return std::ranges::any_of(peers_, [](const Peer& peer) { return !peer.writer.idle(); });
  };
  // A child of fork() has the same connections, but no part in them.
  while (!aborted_ && ::getpid() == owner_ && busy() && Clock::now() < end) {
    if (ProgressLocked()) continue;
    pollfd news{events_.get(), POLLIN, 0};
    poll(&news, 1, static_cast<int>(kCancelPoll.count()));
  }
}

void TcpTransport::SetPeers(std::vector<std::string> addresses) {
  const std::lock_guard lock(mutex_);
  peers_ = std::vector<Peer>(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    peers_[i].address = std::move(addresses[i]);
    peers_[i].reader = TcpFrameReader(static_cast<int>(i));
  }
}

// Sets the events of a socket, which may be new.
void TcpTransport::Watch(int socket, uint32_t events, uint64_t key) {
  epoll_event event{.events = events, .data = {.u64 = key}};
  if (::epoll_ctl(events_.get(), EPOLL_CTL_MOD, socket, &event) == 0) return;
  DDPRUN_CHECK(::epoll_ctl(events_.get(), EPOLL_CTL_ADD, socket, &event) == 0);
}

TcpHandle TcpTransport::NewRequest(int peer, uint64_t tag, void* data, size_t room) {
  auto request = std::make_shared<TcpRequest>();
  request->peer = peer;
  request->tag = tag;
  request->data = static_cast<std::byte*>(data);
  request->room = room;
  request->completions = &completions_;
  return request;
}

Transport::Handle TcpTransport::Send(
    int to, uint64_t tag, const void* data, size_t bytes, std::shared_ptr<const void> keeps) {
  const TcpHandle send = NewRequest(to, tag, const_cast<void*>(data), bytes);
  send->keeps = std::move(keeps);
  const std::lock_guard lock(mutex_);
  DDPRUN_CHECK(to >= 0 && static_cast<size_t>(to) < peers_.size());
  Peer& peer = At(to);
  if (aborted_ || !peer.failed.empty()) {
    send->Finish(ConnectionToRankLost(rank_, to, false, aborted_ ? "canceled" : peer.failed), 0);
    return send;
  }
  if (!peer.out.valid() && !peer.out_ended) Connect(to);
  const bool first = peer.writer.idle();
  peer.writer.Add(send);
  if (!peer.out.valid() || peer.connecting || peer.full) return send;
  if (!first) return send;
  if (bytes > kAtOnceBytes && somebody_waits_) {
    SetFull(to, true);  // as an event, which wakes the thread that waits for events
    return send;
  }
  writing_.push_back(to);
  if (bytes <= kAtOnceBytes) WriteAll();
  return send;
}

Transport::Handle TcpTransport::Receive(int from, uint64_t tag, void* data, size_t bytes) {
  const TcpHandle receive = NewRequest(from, tag, data, bytes);
  const std::lock_guard lock(mutex_);
  DDPRUN_CHECK(from >= 0 && static_cast<size_t>(from) < peers_.size());
  inbox_.Post(receive);
  // Messages that the peer sent before it failed have arrived already.
  const std::string& why = aborted_ ? "canceled" : At(from).failed;
  if (!why.empty()) inbox_.Cancel(receive, ConnectionToRankLost(rank_, from, true, why));
  return receive;
}

std::optional<Transport::Arrived> TcpTransport::Find(uint64_t tag, uint64_t mask) {
  const std::lock_guard lock(mutex_);
  return aborted_ ? std::nullopt : inbox_.Find(tag, mask);
}

Transport::Handle TcpTransport::Take(const Arrived& arrived, void* data) {
  const TcpHandle receive = NewRequest(-1, arrived.tag, data, arrived.bytes);
  const std::lock_guard lock(mutex_);
  inbox_.Take(arrived, receive);
  return receive;
}

void TcpTransport::Cancel(const Handle& request) {
  const auto receive = std::static_pointer_cast<TcpRequest>(request);
  const std::lock_guard lock(mutex_);
  inbox_.Cancel(receive, ConnectionToRankLost(rank_, receive->peer, true, "canceled"));
}

void TcpTransport::Connect(int rank) {
  Peer& peer = At(rank);
  const std::optional<TcpAddress> address = TcpAddress::Parse(peer.address);
  DDPRUN_CHECK(address);
  peer.writer =
      TcpFrameWriter(TcpGreeting{.from = rank_, .to = rank, .cookie = address->cookie}.Pack());
  asio::error_code bad;  // leads to no host
  const int problem =
      rendezvous::BeginConnect(asio::ip::make_address(address->host, bad), address->port, peer.out);
  if (problem != 0) return OutEnded(rank, problem);
  TuneConnection(peer.out.get());
  peer.connecting = true;
  Watch(peer.out.get(), EPOLLOUT | EPOLLIN | EPOLLRDHUP, KeyOf(Source::kOut, rank));
}

// Writes a part of what waits for each peer.
void TcpTransport::WriteAll() {
  for (const int rank : std::exchange(writing_, {})) {
    Peer& peer = At(rank);
    if (!peer.out.valid()) continue;
    switch (peer.writer.Write(peer.out.get())) {
      case TcpFrameWriter::Outcome::kIdle:
        break;
      case TcpFrameWriter::Outcome::kMore:
        writing_.push_back(rank);
        break;
      case TcpFrameWriter::Outcome::kFull:
        SetFull(rank, true);
        break;
      case TcpFrameWriter::Outcome::kFailed:
        OutEnded(rank, errno);
        break;
    }
  }
}

void TcpTransport::SetFull(int rank, bool full) {
  Peer& peer = At(rank);
  peer.full = full;
  Watch(peer.out.get(), (full ? EPOLLOUT : 0U) | EPOLLIN | EPOLLRDHUP, KeyOf(Source::kOut, rank));
  if (!full) writing_.push_back(rank);
}

void TcpTransport::OnOut(int rank, uint32_t events) {
  Peer& peer = At(rank);
  if (!peer.out.valid()) return;
  if (peer.connecting) {
    if (const int problem = rendezvous::EndConnect(peer.out.get()); problem != 0) {
      return OutEnded(rank, problem);
    }
    peer.connecting = false;
    return SetFull(rank, false);
  }
  if ((events & ~uint32_t{EPOLLOUT}) != 0) {
    // Nothing ever comes on this connection but its end.
    char byte = 0;
    const ssize_t got = ::recv(peer.out.get(), &byte, 1, MSG_DONTWAIT);
    if (got >= 0) return OutEnded(rank, TcpFrameReader::kEnded);
    if (errno != EAGAIN && errno != EINTR) return OutEnded(rank, errno);
  }
  if (peer.full && (events & EPOLLOUT) != 0) SetFull(rank, false);
}

void TcpTransport::OnIn(int rank) {
  Peer& peer = At(rank);
  if (!peer.in.valid()) return;
  const int ended = peer.reader.Read(peer.in.get(), inbox_);
  if (ended == 0) return;
  FailPeer(rank, ReasonOf(ended));
}

void TcpTransport::AcceptSome() {
  for (int i = 0; i < kEventsAtOnce; ++i) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    TuneConnection(socket.get());
    Watch(socket.get(), EPOLLIN | EPOLLRDHUP, KeyOf(Source::kStranger, socket.get()));
    const int descriptor = socket.get();
    strangers_.push_back({.socket = std::move(socket), .said = {}});
    // The greeting of a rank has come with the connection, so that others do not push it out.
    OnStranger(descriptor);
    if (strangers_.size() > kMostStrangers) strangers_.pop_front();
  }
}

void TcpTransport::OnStranger(int socket) {
  const auto it =
      std::ranges::find(strangers_, socket, [](const Stranger& each) { return each.socket.get(); });
  if (it == strangers_.end()) return;
  std::array<char, TcpGreeting::kBytes> bytes;
  const ssize_t got = ::recv(socket, bytes.data(), bytes.size() - it->said.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  it->said.append(bytes.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got > 0 && it->said.size() < TcpGreeting::kBytes) return;
  Stranger stranger = std::move(*it);
  strangers_.erase(it);
  const std::optional<TcpGreeting> greeting = TcpGreeting::Unpack(stranger.said);
  if (!greeting || !SameCookie(greeting->cookie, cookie_) || greeting->to != rank_) return;
  if (greeting->from < 0 || static_cast<size_t>(greeting->from) >= peers_.size()) return;
  Peer& peer = At(greeting->from);
  if (peer.in.valid() || !peer.failed.empty()) return;
  peer.in = std::move(stranger.socket);
  Watch(peer.in.get(), EPOLLIN | EPOLLRDHUP, KeyOf(Source::kIn, greeting->from));
}

// Waits for the end of the other connection: it brings what the peer has sent before, such as the
// reason.
void TcpTransport::OutEnded(int rank, int problem) {
  Peer& peer = At(rank);
  peer.out.reset();
  peer.connecting = false;
  if (!peer.out_ended) ++half_ended_;
  peer.out_ended = Clock::now();
  peer.why = ReasonOf(problem);
}

void TcpTransport::FailPeer(int rank, const std::string& why) {
  Peer& peer = At(rank);
  if (!peer.failed.empty()) return;
  peer.failed = why;
  if (peer.out_ended) --half_ended_;
  peer.out.reset();
  peer.in.reset();
  peer.writer.Fail(ConnectionToRankLost(rank_, rank, false, why));
  inbox_.Fail(rank, ConnectionToRankLost(rank_, rank, true, why));
}

void TcpTransport::FailHalfEndedPeers() {
  if (half_ended_ == 0) return;
  const Clock::time_point now = Clock::now();
  for (size_t i = 0; i < peers_.size(); ++i) {
    const Peer& peer = peers_[i];
    if (!peer.out_ended || !peer.failed.empty() || now < *peer.out_ended + kLastMessages) continue;
    FailPeer(static_cast<int>(i), peer.why);
  }
}

bool TcpTransport::ProgressLocked() {
  if (aborted_) return false;
  std::array<epoll_event, kEventsAtOnce> events;
  const int count = ::epoll_wait(events_.get(), events.data(), kEventsAtOnce, 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    const auto number = static_cast<int>(event.data.u64 & 0xffffffff);
    switch (static_cast<Source>(event.data.u64 >> 32)) {
      case Source::kListener:
        AcceptSome();
        break;
      case Source::kOut:
        OnOut(number, event.events);
        break;
      case Source::kIn:
        OnIn(number);
        break;
      case Source::kStranger:
        OnStranger(number);
        break;
    }
  }
  const bool writes = !writing_.empty();
  WriteAll();
  FailHalfEndedPeers();
  return count > 0 || writes;
}

void TcpTransport::Abort() {
  const std::lock_guard lock(mutex_);
  if (aborted_) return;
  for (size_t i = 0; i < peers_.size(); ++i) FailPeer(static_cast<int>(i), "canceled");
  aborted_ = true;
  listener_.reset();
  strangers_.clear();
  WakeOthers();
}

}  // namespace ddprun::trainer
