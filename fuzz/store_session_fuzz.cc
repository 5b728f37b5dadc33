// Sessions over real sockets, several at once on one store: raw bytes or requests in any pieces,
// clients that do not read, that stop in the middle or hang up. Each session ends at most once, and
// what they say they keep in memory stays bounded and goes back to nothing.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <map>
#include <memory>

#include <asio/io_context.hpp>

#include "base/unique_fd.h"
#include "fuzz/input.h"
#include "rendezvous/store/store_session.h"
#include "rendezvous/store/store_state.h"

namespace ddprun::fuzz {
namespace {

using namespace rendezvous;

constexpr WireLimits kWireLimits = {
    .max_key_bytes = 64, .max_value_bytes = 4096, .max_keys = 64, .max_message_bytes = 8192};
constexpr StoreLimits kStoreLimits = {
    .max_total_bytes = 100'000, .max_entries = 100, .max_reply_bytes = 50'000};
constexpr size_t kMostUnsentBytes = 1024;
constexpr size_t kMostHeldBytes = 200'000;
constexpr size_t kClients = 3;

class Server : public StoreSession::Owner {
 public:
  void Accept(UniqueFd fd) {
    const ConnectionId id = next_id_++;
    sessions_[id] = std::make_shared<StoreSession>(io_, std::move(fd), false, id, kWireLimits,
                                                   kMostUnsentBytes, scratch_, *this);
    sessions_[id]->Start();
  }

  void Run() {
    io_.restart();
    io_.poll();
  }

  void Stop() {
    for (auto& [id, session] : sessions_) session->Close();
    sessions_.clear();
    Run();
  }

  Status OnRequest(ConnectionId from, Request request) override {
    std::vector<OutgoingReply> replies;
    Status status = state_.Handle(from, std::move(request), replies);
    for (const OutgoingReply& reply : replies) {
      const auto found = sessions_.find(reply.to);
      Require(found != sessions_.end());
      const auto session = found->second;
      session->Queue(reply.reply);
      session->Flush();
      // Sending may have ended it: then nobody is told any more.
    }
    return status;
  }

  void OnEnded(ConnectionId connection) override {
    const auto found = sessions_.find(connection);
    Require(found != sessions_.end());
    held_bytes_ -= found->second->held_bytes();
    sessions_.erase(found);
    state_.Disconnect(connection);
    if (sessions_.empty()) Require(held_bytes_ == 0);
  }

  void OnStalled() override {}

  bool OnHeldBytes(size_t before, size_t now) override {
    held_bytes_ += now - before;
    return held_bytes_ <= kMostHeldBytes;
  }

  bool IsForeign(const StoreSession& /*session*/, char first_byte) const override {
    return first_byte == 'd';
  }

  void OnForeign(ConnectionId from, UniqueFd fd, std::string received) override {
    Require(fd.valid() && received.front() == 'd');
    OnEnded(from);
  }

 private:
  asio::io_context io_;
  StoreState state_{kStoreLimits};
  std::map<ConnectionId, std::shared_ptr<StoreSession>> sessions_;
  size_t held_bytes_ = 0;
  ConnectionId next_id_ = 1;
  std::array<char, 4096> scratch_{};
};

class Client {
 public:
  void Connect(Server& server) {
    int pair[2] = {-1, -1};
    Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    fd_ = UniqueFd(pair[0]);
    server.Accept(UniqueFd(pair[1]));
  }

  void Send(std::string_view bytes) {
    (void)send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  void Read() {
    char buffer[8192];
    while (recv(fd_.get(), buffer, sizeof buffer, 0) > 0) continue;
  }

  void HangUp() { fd_ = UniqueFd(); }

 private:
  UniqueFd fd_;
};

void Step(Input& input, Server& server, Client& client) {
  const uint8_t choice = input.Byte();
  if (choice < 0x60) {
    std::string bytes;
    EncodeRequest(input.Request(), bytes);
    const size_t cut = choice % 2 == 0 ? bytes.size() : input.Byte() % (bytes.size() + 1);
    client.Send(std::string_view(bytes).substr(0, cut));
    server.Run();
    client.Send(std::string_view(bytes).substr(cut));
  } else if (choice < 0x80) {
    client.Send(input.Bytes(choice % 32));
  } else if (choice < 0xA0) {
    // Much to answer, and nobody who takes it.
    Request set;
    set.op = Op::kSet;
    set.key = "a";
    set.value = std::string(4000, 'x');
    std::string bytes;
    EncodeRequest(set, bytes);
    Request get = set;
    get.op = Op::kGet;
    for (int i = 0; i < choice % 32; ++i) EncodeRequest(get, bytes);
    client.Send(bytes);
  } else if (choice < 0xC0) {
    client.Read();
  } else if (choice < 0xC8) {
    client.HangUp();
    client.Connect(server);
  } else {
    Request validate;
    validate.op = Op::kValidate;
    validate.nonce = kValidateMagic;
    std::string bytes;
    EncodeRequest(validate, bytes);
    client.Send(bytes);
  }
  server.Run();
}

}  // namespace
}  // namespace ddprun::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddprun::fuzz;
  Input input(data, size);
  Server server;
  std::array<Client, kClients> clients;
  for (Client& client : clients) client.Connect(server);
  while (!input.empty()) {
    Client& client = clients[input.Byte() % kClients];
    Step(input, server, client);
  }
  for (Client& client : clients) client.HangUp();
  server.Run();
  server.Stop();
  return 0;
}
