// Sessions over real sockets, several at once on one store: raw bytes or requests in any pieces,
// clients that do not read, that stop in the middle or hang up. Each session ends at most once, and
// what they say they keep in memory stays bounded and goes back to nothing.
#include <sys/socket.h>

#include <array>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "fuzz/input.h"
#include "fuzz/session_server.h"

namespace ddprun::fuzz {
namespace {

using namespace rendezvous;

constexpr size_t kClients = 3;
constexpr ServerLimits kLimits = {
    .wire = {.max_key_bytes = 64,
             .max_value_bytes = 4096,
             .max_keys = 64,
             .max_message_bytes = 8192},
    .store = {.max_total_bytes = 100'000, .max_entries = 100, .max_reply_bytes = 50'000},
    .max_unsent_bytes = 1024,
    .max_held_bytes = 200'000};

class Client {
 public:
  void Connect(SessionServer& server) { fd_ = server.Connect().second; }

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

void Step(Input& input, SessionServer& server, Client& client) {
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
  SessionServer server(kLimits);
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
