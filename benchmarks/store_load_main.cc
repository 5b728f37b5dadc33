// Load for benchmarks/store.py: CLIENTS connections at once join a store, meet at a barrier made of
// a counter and a key, as torch's clients do, and leave together. Any TCPStore server will do.
//
//   ddp-store-load barrier PORT CLIENTS      prints seconds from the first connect to the last wake
//   ddp-store-load trips PORT ROUNDS         prints seconds per ADD, get and SET of our client
//
// Between joining and leaving it prints "joined" and waits for a line on stdin, so that the
// server's memory can be read.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "rendezvous/store/tcp_store.h"
#include "rendezvous/store/wire.h"

namespace {

using namespace ddprun;
using namespace ddprun::rendezvous;
using Clock = std::chrono::steady_clock;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "ddp-store-load: %s\n", what.c_str());
  std::exit(1);
}

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Client {
  UniqueFd fd;
  int step = 0;         // the answer that it waits for: see Answered
  size_t received = 0;  // of that answer
  char answer[8] = {};
};

class Crowd {
 public:
  Crowd(uint16_t port, int size) : port_(port), clients_(size), epoll_(epoll_create1(0)) {}

  // Everyone connects, one after the other as fast as the kernel lets it, and passes the barrier.
  double Join() {
    const auto begin = Clock::now();
    for (Client& client : clients_) {
      Connect(client);
      // Answers are taken meanwhile, or the server could not send them.
      Poll(0);
    }
    while (passed_ < clients_.size()) Poll(-1);
    return SecondsSince(begin);
  }

 private:
  void Connect(Client& client) {
    client.fd = UniqueFd(socket(AF_INET6, SOCK_STREAM, 0));
    if (!client.fd.valid()) Fail("socket: " + ErrnoText(errno));
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port_);
    address.sin6_addr = in6addr_loopback;
    const int on = 1;
    (void)setsockopt(client.fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(client.fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      Fail("connect: " + ErrnoText(errno));
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &client;
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, client.fd.get(), &event);
    std::string bytes;
    Request validate;
    validate.op = Op::kValidate;
    validate.nonce = kValidateMagic;
    EncodeRequest(validate, bytes);
    EncodeRequest(Request(), bytes);  // a ping
    Send(client, bytes);
  }

  static void Send(const Client& client, const std::string& bytes) {
    if (send(client.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size())) {
      Fail("send: " + ErrnoText(errno));
    }
  }

  static void Ask(const Client& client, const Request& request) {
    std::string bytes;
    EncodeRequest(request, bytes);
    Send(client, bytes);
  }

  void Poll(int timeout_ms) {
    epoll_event events[256];
    const int ready = epoll_wait(epoll_.get(), events, 256, timeout_ms);
    for (int i = 0; i < ready; ++i) Read(*static_cast<Client*>(events[i].data.ptr));
  }

  void Read(Client& client) {
    constexpr size_t kSizes[] = {4, 8, 8, 1};  // ping, ADD, ADD, WAIT
    const size_t size = kSizes[client.step];
    const ssize_t count =
        recv(client.fd.get(), client.answer + client.received, size - client.received, 0);
    if (count <= 0) Fail("the server closed a connection");
    client.received += static_cast<size_t>(count);
    if (client.received < size) return;
    client.received = 0;
    Answered(client, client.step++);
  }

  void Answered(Client& client, int step) {
    Request add = KeyRequest(Op::kAdd, step == 0 ? "init/" : "/barrier");
    add.number = 1;
    if (step < 2) return Ask(client, add);
    if (step == 3) {
      ++passed_;
      return;
    }
    int64_t count = 0;
    std::memcpy(&count, client.answer, sizeof count);
    if (count == static_cast<int64_t>(clients_.size())) {
      Ask(client, KeyRequest(Op::kSet, "/go", "1"));
    }
    Ask(client, KeysRequest(Op::kWait, {"/go"}));
  }

  const uint16_t port_;
  std::vector<Client> clients_;
  UniqueFd epoll_;
  size_t passed_ = 0;
};

void Barrier(uint16_t port, int clients) {
  Crowd crowd(port, clients);
  std::printf("%.6f\njoined\n", crowd.Join());
  std::fflush(stdout);
  (void)std::getchar();
}

template <typename Call>
double SecondsPer(int rounds, Call call) {
  const auto begin = Clock::now();
  for (int i = 0; i < rounds; ++i) call();
  return SecondsSince(begin) / rounds;
}

void Trips(uint16_t port, int rounds) {
  const auto soon = [] { return DeadlineAfter(std::chrono::seconds(60)); };
  auto store = TcpStore::Connect({"127.0.0.1", port}, soon());
  if (!store.has_value()) Fail(store.error().what);
  if (!(*store)->Set("k", "value", soon()).ok()) Fail("set");
  const double add = SecondsPer(rounds, [&] { (void)(*store)->Add("n", 1, soon()); });
  const double get = SecondsPer(rounds, [&] { (void)(*store)->Get("k", soon()); });
  const double set = SecondsPer(rounds, [&] { (void)(*store)->Set("k", "value", soon()); });
  std::printf("{\"add\": %.9f, \"get\": %.9f, \"set\": %.9f}\n", add, get, set);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) Fail("usage: ddp-store-load barrier|trips PORT COUNT");
  rlimit limit{};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  const auto port = static_cast<uint16_t>(std::atoi(argv[2]));
  const int count = std::atoi(argv[3]);
  if (std::string(argv[1]) == "barrier") {
    Barrier(port, count);
  } else {
    Trips(port, count);
  }
  return 0;
}
