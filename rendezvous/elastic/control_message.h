// The messages of the control connection as JSON: what a node says of itself, and what the
// coordinator tells it. Pure.
//
// Node to coordinator: hello, join, opened, reached, unreached, end, leave, withdraw, heard.
// Coordinator to node: open, reach, start, end, all_left, refuse, progress, withdrawn. Both: alive.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "rendezvous/elastic/control_channel.h"
#include "rendezvous/elastic/round_state.h"

namespace ddprun::rendezvous {

// Raised when an older end could not understand a newer one any more.
inline constexpr int kControlProtocol = 2;

// A node's first message.
struct Hello {
  int protocol = kControlProtocol;
  std::string run_id;
  int requeues = 0;
  JobRules rules;
  NodeInfo node;
  KeepAlive keep_alive;
  std::string local_addr;  // --local_addr; empty: the address that the coordinator sees
};

nlohmann::json ToJson(const Hello& hello);
// kFailed with what is wrong with it, when it cannot be meant so.
Result<Hello> ParseHello(const nlohmann::json& message);

// Where the node that opens a round's store opens it.
struct StorePlace {
  std::string address;         // how the others reach it
  bool loopback_only = false;  // all nodes are on this machine
};

nlohmann::json ToJson(const OpenStore& open, const StorePlace& place);
nlohmann::json ToJson(const ReachStore& reach);
nlohmann::json ToJson(const StartRound& start);
nlohmann::json ToJson(const TellEnd& end);
// A node's "end" and "withdraw"; EndOf reads it, and cuts what is longer than all nodes can be
// told.
RoundEnd EndOf(const nlohmann::json& message);
nlohmann::json EndMessage(const char* type, int64_t attempt, const RoundEnd& end);
nlohmann::json ToJson(const AllLeft& left);
nlohmann::json ToJson(const RefuseJoin& refuse);
nlohmann::json ToJson(const TellProgress& progress);

// Of an "unreached".
std::string ProblemOf(const nlohmann::json& unreached);

// 1 to 65535.
std::optional<uint16_t> PortOf(const nlohmann::json& message, const char* key);

// Nothing when it is none.
std::optional<Membership> MembershipOf(const nlohmann::json& reach);
Error RefusalOf(const nlohmann::json& refuse);

}  // namespace ddprun::rendezvous
