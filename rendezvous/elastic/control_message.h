// Converts the messages of a control connection to and from JSON. Pure.
//
// Node to coordinator: hello, join, opened, reached, unreached, goes_on, end, leave, withdraw,
// heard. Coordinator to node: other_job, elsewhere, open, reach, start, lost, end, all_left,
// refuse, progress, withdrawn. Both: alive. Between the hosts of a job with several: ballot, vote.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "rendezvous/elastic/control_channel.h"
#include "rendezvous/elastic/election.h"
#include "rendezvous/elastic/round_state.h"
#include "rendezvous/elastic/store_place.h"

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
  // Its workers have ended so long after the node hears nothing; 0: nobody waits for that.
  std::chrono::milliseconds stop_time{0};
  std::string hosts;  // where a leader is elected: "a:29400,b:29400,c:29400"; empty for one host
};

nlohmann::json ToJson(const Hello& hello);
// Reads a node's hello. The error says what is wrong with the message.
Result<Hello> ParseHello(const nlohmann::json& message);

nlohmann::json ToJson(const OpenStore& open, const StorePlace& place);
nlohmann::json ToJson(const ReachStore& reach);
nlohmann::json ToJson(const StartRound& start);
nlohmann::json ToJson(const AskToGoOn& ask);
nlohmann::json ToJson(const ReportEnd& end);
// Reads a node's "end" or "withdraw". Cuts a message or a worker that is too long to be sent to all
// nodes.
RoundEnd EndOf(const nlohmann::json& message);
nlohmann::json EndMessage(const char* type, int64_t attempt, const RoundEnd& end);
nlohmann::json ToJson(const AllLeft& left);
nlohmann::json ToJson(const RefuseJoin& refuse);
nlohmann::json ToJson(const ReportProgress& progress);

nlohmann::json ToJson(const Ballot& ballot);
// Returns nullopt if the message is no ballot that a host would send.
std::optional<Ballot> BallotOf(const nlohmann::json& message);
nlohmann::json ToJson(const Vote& vote);
std::optional<Vote> VoteOf(const nlohmann::json& message);

// Returns the port if it is from 1 to 65535, otherwise nullopt.
std::optional<uint16_t> PortOf(const nlohmann::json& message, const char* key);

// The node that sent a message.
struct Sender {
  NodeId id = 0;
  const NodeInfo& info;
  const std::string& store_address;  // of the round that is being formed
  bool is_awaited = false;           // see RoundState::OnWithdraw()
};
// Gives a message after the hello to the node's job.
Actions TakeMessage(RoundState& state,
                    const Sender& sender,
                    const nlohmann::json& message,
                    RoundState::Time now);

// Returns nullopt if the message holds no valid membership.
std::optional<Membership> MembershipOf(const nlohmann::json& reach);
Error RefusalOf(const nlohmann::json& refuse);

}  // namespace ddprun::rendezvous
