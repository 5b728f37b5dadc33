// Converts the messages of a control connection to and from JSON. Pure.
//
// Node to coordinator: hello, join, opened, reached, unreached, end, leave, withdraw, heard.
// Coordinator to node: other_job, open, reach, start, end, all_left, refuse, progress, withdrawn.
// Both: alive.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "rendezvous/elastic/control_channel.h"
#include "rendezvous/elastic/round_state.h"

namespace ddprun::rendezvous {

// To be raised if an older ddprun could not understand the messages of a newer one.
inline constexpr int kControlProtocol = 2;

// A node's first message.
struct Hello {
  int protocol = kControlProtocol;
  std::string run_id;
  int requeues = 0;
  JobRules rules;
  NodeInfo node;
  KeepAlive keep_alive;
  std::string local_addr;  // --local_addr; empty means the address that the coordinator sees
};

nlohmann::json ToJson(const Hello& hello);
// Reads a node's hello. The error says what is wrong with the message.
Result<Hello> ParseHello(const nlohmann::json& message);

// Where the node of rank 0 opens a round's store.
struct StorePlace {
  std::string address;         // by which the other nodes reach the store
  bool loopback_only = false;  // all nodes are on this machine
};

nlohmann::json ToJson(const OpenStore& open, const StorePlace& place);
nlohmann::json ToJson(const ReachStore& reach);
nlohmann::json ToJson(const StartRound& start);
nlohmann::json ToJson(const ReportEnd& end);
// Reads a node's "end" or "withdraw". Cuts a message or a worker that is too long to be sent to all
// nodes.
RoundEnd EndOf(const nlohmann::json& message);
nlohmann::json EndMessage(const char* type, int64_t attempt, const RoundEnd& end);
nlohmann::json ToJson(const AllLeft& left);
nlohmann::json ToJson(const RefuseJoin& refuse);
nlohmann::json ToJson(const ReportProgress& progress);

// Returns the text in an "unreached" that says what went wrong.
std::string ProblemOf(const nlohmann::json& unreached);

// Returns the port if it is from 1 to 65535, otherwise nullopt.
std::optional<uint16_t> PortOf(const nlohmann::json& message, const char* key);

// Returns nullopt if the message holds no valid membership.
std::optional<Membership> MembershipOf(const nlohmann::json& reach);
Error RefusalOf(const nlohmann::json& refuse);

}  // namespace ddprun::rendezvous
