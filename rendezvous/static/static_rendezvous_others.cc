// Finds out who else is at the store's port: node 0, a second node 0, or nodes of another job.
#include <unistd.h>

#include <random>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/json_of_stranger.h"
#include "base/text.h"
#include "rendezvous/join_text.h"
#include "rendezvous/net/heard_text.h"
#include "rendezvous/static/static_rendezvous.h"
#include "rendezvous/store/wire.h"

namespace ddprun::rendezvous {

namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

// How long the program at a taken port may take to say who it is.
constexpr milliseconds kAnswerTimeout{1000};

struct Identity {
  std::string host = "another process";
  std::string run_id;
  int nnodes = 0;
};

// A missing field keeps its default, because torchrun's nodes write no identity.
Identity ParseIdentity(const std::string& text) {
  Identity identity;
  const Json parsed = ParseJsonOfStranger(text);
  if (!parsed.is_object()) return identity;
  for (const auto& [key, out] : {std::pair("host", &identity.host), {"run_id", &identity.run_id}}) {
    if (parsed.contains(key) && parsed[key].is_string()) *out = parsed[key].get<std::string>();
  }
  const bool counted = parsed.contains("nnodes") && parsed["nnodes"].is_number_integer();
  if (counted) identity.nnodes = parsed["nnodes"].get<int>();
  return identity;
}

}  // namespace

// Returns a text that says who has the node rank and differs between any two processes.
std::string StaticRendezvous::MakeIdentity() const {
  std::random_device random;
  const Json json = {{"host", HostName()},
                     {"pid", getpid()},
                     {"run_id", options_.run_id},
                     {"nnodes", nnodes_},
                     {"token", (uint64_t{random()} << 32) | random()}};
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// Takes the node rank, unless another process has it.
void StaticRendezvous::TakeRank() {
  Ask(KeyRequest(Op::kCompareSet, keys_.Node(node_rank_), identity_), [this](const Reply& reply) {
    const std::string& taken = reply.values.front();
    if (taken != identity_) {
      return FailJoin(NodeRankTaken(node_rank_, ParseIdentity(taken).host));
    }
    if (host()) return EnterRound();
    CheckHost();
  });
}

void StaticRendezvous::CheckHost() {
  Ask(KeysRequest(Op::kCheck, {JobKeys::Host()}), [this](const Reply& reply) {
    hosted_by_ddprun_ = reply.status == kCheckReady;
    looking_ = hosted_by_ddprun_;
    if (!hosted_by_ddprun_) return EnterRound();  // torchrun hosts the store
    Ask(KeyRequest(Op::kGet, JobKeys::Host()), [this](const Reply& answer) {
      const Identity node0 = ParseIdentity(answer.values.front());
      if (node0.run_id != options_.run_id) {
        return FailJoin(RunIdsDiffer(options_.run_id, node0.run_id, node0.host));
      }
      if (node0.nnodes != nnodes_) {
        return FailJoin(NnodesDiffer(nnodes_, node0.nnodes));
      }
      EnterRound();
    });
  });
}

// Calls `then` with the identity of the store's host. "" means a store of another launcher,
// nullopt means that no store answers.
void StaticRendezvous::AskWhoHosts(milliseconds timeout, HostHandler then) {
  twin_ = std::make_unique<StoreConnection>(io_, options_.endpoint, DeadlineAfter(timeout));
  twin_->Call(KeysRequest(Op::kCheck, {JobKeys::Host()}), [this, then = std::move(then)](
                                                              const Result<Reply>& reply) {
    if (!reply.has_value()) return then(std::nullopt);
    if (reply->status != kCheckReady) return then("");
    twin_->Call(KeyRequest(Op::kGet, JobKeys::Host()), [then](const Result<Reply>& answer) {
      then(answer.has_value() ? std::optional(answer->values.front()) : std::nullopt);
    });
  });
}

// Looks for a second node 0 at the endpoint, which is no known address of this machine. The
// endpoint may still lead back to this process.
void StaticRendezvous::LookForTwin() {
  AskWhoHosts(options_.rules.join_timeout, [this](const std::optional<std::string>& identity) {
    if (!identity || *identity == identity_) return;
    FailJoin(NodeRankTaken(0, ParseIdentity(*identity).host));
  });
}

void StaticRendezvous::FailWithoutPort(const Error& taken) {
  AskWhoHosts(kAnswerTimeout, [this, taken](const std::optional<std::string>& identity) {
    if (!identity) return FailJoin(taken);
    const Identity other = ParseIdentity(*identity);
    if (other.run_id == options_.run_id) return FailJoin(NodeRankTaken(0, other.host));
    Error error = taken;
    error.what += other.run_id.empty()
                      ? " A store listens there: that of another launcher's node 0, or `ddprun "
                        "store`."
                      : " It belongs to node 0 of the job --rdzv_id=" + HeardText(other.run_id) +
                            ", on " + other.host + ".";
    FailJoin(error);
  });
}

// Reports which nodes have joined. Node 0 also sees the keys of nodes that look for another job.
void StaticRendezvous::SayWhoIsThere() {
  const std::string told = std::exchange(now_.who_is_there, DescribeJoined(nnodes_, Missing()));
  if (told != now_.who_is_there)
    Tell(KeyRequest(Op::kSet, keys_.Joined(round_), now_.who_is_there));
  server_->Call(KeyRequest(Op::kListKeys, ""), Guarded([this](const Result<Reply>& reply) {
                  if (!now_.on_joined) return;
                  strangers_.clear();
                  const auto keys = reply.has_value() ? reply->values : std::vector<std::string>();
                  for (const std::string& key : keys) {
                    const auto other = keys_.OtherJob(key);
                    if (!other) continue;
                    strangers_ = "; node " + other->second +
                                 " came with --rdzv_id=" + HeardText(other->first) +
                                 ", this job has " + HeardText(options_.run_id);
                    break;
                  }
                  Say(DescribeJoined(nnodes_, Missing()) + strangers_);
                }));
}

// Reports the line that node 0 wrote, because the store could not bear that every node looks at
// the key of every other node.
void StaticRendezvous::AskWhoIsThere() {
  constexpr size_t kMostShown = 1000;
  Ask(KeysRequest(Op::kCheck, {keys_.Joined(round_)}), [this](const Reply& there) {
    if (there.status != kCheckReady) return;
    Ask(KeyRequest(Op::kGet, keys_.Joined(round_)), [this](const Reply& reply) {
      now_.who_is_there = Printable(reply.values.front()).substr(0, kMostShown);
      Say(now_.who_is_there);
    });
  });
}

// Looks for `node` and later nodes in the store of torchrun's node 0. It checks key by key, because
// a CHECK of several keys does not say which of them exist.
void StaticRendezvous::CheckNode(int node, std::vector<int> missing) {
  if (!now_.on_joined || node == nnodes_) {
    looking_ = false;
    if (!now_.on_joined) return;
    now_.who_is_there = DescribeJoined(nnodes_, missing);
    return Say(now_.who_is_there);
  }
  Ask(KeysRequest(Op::kCheck, {keys_.RoleInfo(round_, node)}),
      [this, node, missing = std::move(missing)](const Reply& reply) mutable {
        if (reply.status != kCheckReady) missing.push_back(node);
        CheckNode(node + 1, std::move(missing));
      });
}

}  // namespace ddprun::rendezvous
