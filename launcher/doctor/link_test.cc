#include "launcher/doctor/link_test.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include <asio/ip/address_v6.hpp>

#include "base/text.h"
#include "launcher/doctor/checks.h"
#include "rendezvous/net/socket.h"

namespace ddprun::launcher {

namespace {

using rendezvous::Deadline;
using rendezvous::DeadlineAfter;
using rendezvous::Stream;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// A client sends chunks and questions. The server takes chunks, and answers a question by its
// clock.
constexpr char kChunk = 'c';
constexpr char kQuestion = 'q';
constexpr size_t kChunkBytes = 64 << 10;
constexpr int kChunks = 512;  // 32 MiB
constexpr milliseconds kBurst{300};
constexpr int kQuestions = 20;
constexpr milliseconds kConnectTimeout{2'000};
constexpr milliseconds kTestTimeout{3'000};
constexpr int kPollMs = 100;

int64_t WallClockNs() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool ReadAll(int fd, char* to, size_t bytes) {
  return bytes == 0 || ::recv(fd, to, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

void Serve(const UniqueFd& fd) {
  const timeval patience{.tv_sec = kTestTimeout.count() / 1000, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  rendezvous::TuneConnection(fd.get());
  std::vector<char> chunk(kChunkBytes);
  while (ReadAll(fd.get(), chunk.data(), 1)) {
    if (chunk[0] == kQuestion) {
      const int64_t now = WallClockNs();
      if (::send(fd.get(), &now, sizeof now, MSG_NOSIGNAL) != sizeof now) return;
    } else if (chunk[0] != kChunk || !ReadAll(fd.get(), chunk.data(), kChunkBytes - 1)) {
      return;
    }
  }
}

Result<int64_t> Ask(Stream& stream, Deadline deadline) {
  DDPRUN_TRY(stream.Write({&kQuestion, 1}, deadline));
  std::array<char, sizeof(int64_t)> answer{};
  for (size_t have = 0; have < answer.size();) {
    DDPRUN_ASSIGN(const size_t got, stream.ReadSome(std::span(answer).subspan(have), deadline));
    have += got;
  }
  int64_t clock = 0;
  std::memcpy(&clock, answer.data(), sizeof clock);
  return clock;
}

double MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

Status MeasureLatency(Stream& stream, LinkFacts& link) {
  const Deadline deadline = DeadlineAfter(kTestTimeout);
  for (int i = 0; i < kQuestions; ++i) {
    const int64_t before = WallClockNs();
    const auto start = Clock::now();
    DDPRUN_ASSIGN(const int64_t clock, Ask(stream, deadline));
    const double us = MicrosecondsSince(start);
    if (i > 0 && us >= link.latency_us) continue;
    link.latency_us = us;
    link.clock_ms = static_cast<double>(clock - before) / 1e6 - us / 2e3;
  }
  return {};
}

Status MeasureBandwidth(Stream& stream, LinkFacts& link) {
  const Deadline deadline = DeadlineAfter(kTestTimeout);
  const std::string chunk(kChunkBytes, kChunk);
  const auto start = Clock::now();
  double bits = 0;
  for (int i = 0; i < kChunks && Clock::now() < start + kBurst; ++i) {
    DDPRUN_TRY(stream.Write(chunk, deadline));
    bits += 8.0 * kChunkBytes;
  }
  DDPRUN_ASSIGN(std::ignore, Ask(stream, deadline));
  link.mbit_per_s = bits / MicrosecondsSince(start);
  return {};
}

bool Has(const std::vector<std::string>& list, const std::string& item) {
  return std::ranges::find(list, item) != list.end();
}

}  // namespace

Result<std::unique_ptr<LinkServer>> LinkServer::Start() {
  const asio::ip::address any = asio::ip::address_v6::any();
  DDPRUN_ASSIGN(auto listeners, rendezvous::ListenOn({&any, 1}, 0));
  return std::unique_ptr<LinkServer>(new LinkServer(std::move(listeners)));
}

LinkServer::LinkServer(rendezvous::Listeners listeners)
    : listeners_(std::move(listeners)), thread_([this] { Run(); }) {}

LinkServer::~LinkServer() {
  stop_ = true;
  thread_.join();
  for (std::thread& test : tests_) test.join();
}

void LinkServer::Run() {
  std::vector<pollfd> polls;
  for (const UniqueFd& fd : listeners_.fds) polls.push_back({fd.get(), POLLIN, 0});
  while (!stop_) {
    ::poll(polls.data(), polls.size(), kPollMs);
    for (const pollfd& ready : polls) {
      if ((ready.revents & POLLIN) == 0) continue;
      const int fd = ::accept4(ready.fd, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      tests_.emplace_back([connection = UniqueFd(fd)] { Serve(connection); });
    }
  }
}

LinkFacts TestLink(const NodeFacts& peer) {
  LinkFacts link;
  const std::vector<std::string> found = AddressesOf(peer.host);
  std::string address = peer.addresses.empty() ? "127.0.0.1" : peer.addresses.front();
  const auto right = std::ranges::find_if(
      found, [&](const std::string& text) { return Has(peer.addresses, text); });
  if (found.empty()) {
    link.name_problem = peer.host + " has no address there";
  } else if (right == found.end() && !peer.addresses.empty()) {
    link.name_problem =
        peer.host + " is " + FormatList(found) + " there, and has " + FormatList(peer.addresses);
  } else if (right != found.end() && peer.interface.empty()) {
    address = *right;
  }
  auto stream = Stream::Connect({address, peer.port}, DeadlineAfter(kConnectTimeout));
  if (!stream) {
    link.problem = "no connection to " + address;
  } else if (!MeasureLatency(*stream, link).ok()) {
    link.problem = address + " accepts a connection and does not answer";
  } else if (!MeasureBandwidth(*stream, link).ok()) {
    link.problem = address + " answers, but full packets do not arrive: maybe a smaller MTU";
  }
  return link;
}

}  // namespace ddprun::launcher
