// A TCPStore with several clients, in the plainest way: a map of keys, and a list of waits in the
// order of their coming. It says which answer each client is due, and when.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/store/store_state.h"
#include "rendezvous/store/wire.h"
#include "tests/rendezvous/store/key_model.h"

namespace ddprun::fuzz {

class StoreModel {
 public:
  using Client = rendezvous::ConnectionId;
  using Reply = rendezvous::Reply;
  using Request = rendezvous::Request;

  // Of the limits the model knows those of entries and of a reply's bytes.
  explicit StoreModel(const rendezvous::StoreLimits& limits) : limits_(limits) {}

  // Returns false if the store refuses the request and has to close the connection.
  bool Perform(Client from, const Request& request);
  void Leave(Client client);
  // Returns the answers that have become due since the last call, in their order.
  std::vector<std::pair<Client, Reply>> TakeAnswers() { return std::exchange(answers_, {}); }

 private:
  struct Wait {
    Client client;
    std::set<std::string> missing;
    std::string barrier;
  };

  // nullopt means that the store refuses it.
  std::optional<Reply> PerformOnKey(const Request& request);
  void Came(const std::string& key, bool for_one);
  // Ends the waits that lack nothing. It and the functions that answer return true.
  bool Wake();
  bool Barrier(Client from, const Request& request);
  bool MultiGet(Client from, const Request& request);
  bool Answer(Client to, const Reply& reply);
  bool AnswerStatus(Client to, uint8_t status);
  bool Waits(Client client) const;
  std::set<std::string> Absent(const std::vector<std::string>& keys);
  std::vector<std::string> Names() const;
  size_t NumEntries() const;

  const rendezvous::StoreLimits limits_;
  std::map<std::string, rendezvous::KeyModel> keys_;
  std::list<Wait> waits_;
  std::vector<std::pair<Client, Reply>> answers_;
};

}  // namespace ddprun::fuzz
