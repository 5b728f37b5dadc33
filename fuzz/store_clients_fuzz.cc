// Several clients of one store at once, against a model. The input says who sends what and when:
// whole requests, requests in pieces, many before the server runs, waits that are cancelled,
// clients that take no answers for a while or hang up in the middle. Every byte of every answer
// must be the model's, and nobody may get one earlier or later.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/unique_fd.h"
#include "fuzz/session_server.h"
#include "fuzz/store_model.h"

namespace ddprun::fuzz {
namespace {

using namespace rendezvous;

constexpr size_t kClients = 4;
constexpr std::string_view kKeys = "abcde";  // those of Input::Key()
constexpr ServerLimits kLimits = {.store = {.max_entries = 8, .max_reply_bytes = 10'000},
                                  .max_unsent_bytes = 1024,
                                  .max_held_bytes = 10'000'000,
                                  // So few that slow clients hold up their session.
                                  .kernel_bytes = 8192};

struct Client {
  UniqueFd fd;  // none after it has hung up
  bool slow = false;
  std::string held;                // the end of the last request, which it does not send yet
  std::string outbox;              // bytes that the kernel has not taken yet
  std::deque<std::string> sent{};  // requests that the server has not performed yet
  std::deque<Reply> due{};         // answers that the client has not received yet
  std::string received;            // the beginning of the first of them
};

// Keys may come in any order. All have one letter.
std::string Sorted(std::string list) {
  constexpr size_t kCount = sizeof(int64_t), kPiece = sizeof(uint64_t) + 1;
  std::set<std::string> pieces;
  for (size_t at = kCount; at < list.size(); at += kPiece) pieces.insert(list.substr(at, kPiece));
  list.resize(std::min(list.size(), kCount));
  for (const std::string& piece : pieces) list += piece;
  return list;
}

void Compare(Client& client) {
  while (!client.due.empty()) {
    const Reply& reply = client.due.front();
    std::string expected;
    EncodeReply(reply, expected);
    std::string answer = client.received.substr(0, expected.size());
    if (answer.size() < expected.size()) {
      return Require(reply.form == ReplyForm::kList || expected.starts_with(answer));
    }
    if (reply.form == ReplyForm::kList) answer = Sorted(std::move(answer));
    Require(answer == expected);
    client.received.erase(0, expected.size());
    client.due.pop_front();
  }
  Require(client.received.empty());
}

// Returns whether anything came.
bool Receive(Client& client) {
  char buffer[4096];
  bool any = false;
  for (ssize_t count; (count = recv(client.fd.get(), buffer, sizeof buffer, 0)) > 0;) {
    client.received.append(buffer, static_cast<size_t>(count));
    any = true;
  }
  Compare(client);
  return any;
}

bool Transmit(Client& client) {
  const auto count =
      send(client.fd.get(), client.outbox.data(), client.outbox.size(), MSG_NOSIGNAL);
  if (count <= 0) return false;
  client.outbox.erase(0, static_cast<size_t>(count));
  return true;
}

class World {
 public:
  World() {
    for (ConnectionId& place : places_) Connect(place);
  }

  void Step(Input& input) {
    ConnectionId& place = places_[input.Byte() % kClients];
    Client& client = clients_.at(place);
    const uint8_t choice = input.Byte();
    if (choice < 0xC0) {
      Request request = input.Request();
      if (request.op == Op::kValidate) request.op = Op::kCancelWait;
      const size_t kept = choice % 3 == 0 ? input.Byte() % 32 : 0;
      Send(client, request, kept);
    } else if (choice < 0xD0) {
      // Answers that fill what the kernel keeps.
      const std::string key = input.Key();
      Send(client,
           KeyRequest(choice % 4 < 2 ? Op::kSet : Op::kAppend, key, std::string(3000, 'x')));
      for (int i = 0; i < choice % 8; ++i) Send(client, KeyRequest(Op::kGet, key));
    } else if (choice < 0xE0) {
      client.slow = !client.slow;
    } else if (choice < 0xF0) {
      client.fd = UniqueFd();
      Connect(place);
    }
    if (choice % 2 == 0) Settle();
  }

  // All take their answers. Then one more client looks at what the store holds, and all leave.
  void End() {
    for (auto& [id, client] : clients_) client.slow = false;
    Settle();
    ConnectionId place = 0;
    Connect(place);
    for (const char key : kKeys) {
      Send(clients_.at(place), KeyRequest(Op::kGet, std::string(1, key)));
      Send(clients_.at(place), KeyRequest(Op::kQueueLen, std::string(1, key)));
    }
    Send(clients_.at(place), KeyRequest(Op::kListKeys, ""));
    Settle();
    for (auto& [id, client] : clients_) client.fd = UniqueFd();
    server_.Run();
    Require(clients_.empty() && server_.state().waits().num_parked() == 0);
    server_.Stop();
  }

 private:
  void Connect(ConnectionId& place) {
    auto [id, fd] = server_.Connect();
    place = id;
    Client& client = clients_[id];
    client.fd = std::move(fd);
    EncodeRequest({.op = Op::kValidate, .nonce = kValidateMagic}, client.outbox);
    Transmit(client);
  }

  // The last `kept` bytes go with the next request.
  void Send(Client& client, const Request& request, size_t kept = 0) {
    std::string bytes;
    EncodeRequest(request, bytes);
    client.sent.push_back(bytes);
    const size_t cut = bytes.size() - std::min(kept, bytes.size());
    client.outbox += std::exchange(client.held, bytes.substr(cut)) + bytes.substr(0, cut);
    Transmit(client);
  }

  // Lets the server run until it has nothing to do for the clients that take their answers. They
  // must have got all that they are due, and the server all that they have sent.
  void Settle() {
    for (bool moved = true; moved;) {
      server_.Run();
      moved = false;
      for (ConnectionId& place : places_) {
        if (!clients_.contains(place)) Connect(place);
      }
      for (auto& [id, client] : clients_) {
        moved |= Transmit(client);
        if (!client.slow) moved |= Receive(client);
      }
    }
    for (const auto& [id, client] : clients_) {
      Require(client.fd.valid() && server_.Has(id));
      if (client.slow) continue;
      Require(client.due.empty() && client.received.empty() && client.outbox.empty());
      Require(client.sent.size() == (client.held.empty() ? 0 : 1));
    }
  }

  void OnPerformed(ConnectionId from, const Request& request, bool accepted) {
    Client& client = clients_.at(from);
    std::string bytes;
    EncodeRequest(request, bytes);
    Require(!client.sent.empty() && client.sent.front() == bytes);
    client.sent.pop_front();
    Require(model_.Perform(from, request) == accepted);
    for (auto& [to, reply] : model_.TakeAnswers()) {
      const auto found = clients_.find(to);
      Require(found != clients_.end());
      found->second.due.push_back(std::move(reply));
    }
    if (!accepted) refused_ = from;
  }

  // A client has hung up, or its request was refused.
  void OnEnded(ConnectionId id, bool stalled) {
    Client& client = clients_.at(id);
    if (client.fd.valid()) {
      Require(refused_ == id);
      Receive(client);
      Require(stalled || (client.due.empty() && client.received.empty()));
    }
    model_.Leave(id);
    clients_.erase(id);
  }

  SessionServer server_{kLimits,
                        {.performed = [this](auto... event) { OnPerformed(event...); },
                         .ended = [this](auto... event) { OnEnded(event...); }}};
  StoreModel model_{kLimits.store};
  std::map<ConnectionId, Client> clients_;
  std::array<ConnectionId, kClients> places_{};
  ConnectionId refused_ = 0;
};

}  // namespace
}  // namespace ddprun::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddprun::fuzz;
  Input input(data, size);
  World world;
  while (!input.empty()) world.Step(input);
  world.End();
  return 0;
}
