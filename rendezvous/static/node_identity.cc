#include "rendezvous/static/node_identity.h"

#include <unistd.h>

#include <random>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/untrusted_json.h"
#include "rendezvous/join_text.h"
#include "rendezvous/net/quote_received.h"

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
  const Json parsed = ParseUntrustedJson(text);
  if (!parsed.is_object()) return identity;
  for (const auto& [key, out] : {std::pair("host", &identity.host), {"run_id", &identity.run_id}}) {
    if (parsed.contains(key) && parsed[key].is_string()) *out = parsed[key].get<std::string>();
  }
  const bool counted = parsed.contains("nnodes") && parsed["nnodes"].is_number_integer();
  if (counted) identity.nnodes = parsed["nnodes"].get<int>();
  return identity;
}

std::string MakeIdentity(const StaticNode& node) {
  std::random_device random;
  const Json json = {{"host", HostName()},
                     {"pid", getpid()},
                     {"run_id", node.options.run_id},
                     {"nnodes", node.nnodes},
                     {"token", (uint64_t{random()} << 32) | random()}};
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace

NodeIdentity::NodeIdentity(StaticNode& node) : node_(node), text_(MakeIdentity(node)) {}

void NodeIdentity::ClaimRank(std::function<void()> then) {
  node_.Ask(KeyRequest(Op::kCompareSet, node_.keys.Node(node_.rank), text_),
            [this, then = std::move(then)](const Reply& reply) {
              const std::string& taken = reply.values.front();
              if (taken != text_) {
                return node_.EndJoin(NodeRankTaken(node_.rank, ParseIdentity(taken).host));
              }
              if (node_.is_host()) return then();
              CheckHost(then);
            });
}

void NodeIdentity::CheckHost(std::function<void()> then) {
  node_.Ask(KeysRequest(Op::kCheck, {JobKeys::Host()}),
            [this, then = std::move(then)](const Reply& reply) {
              node_.hosted_by_ddprun = reply.status == kCheckReady;
              if (!*node_.hosted_by_ddprun) return then();  // torchrun hosts the store
              node_.Ask(KeyRequest(Op::kGet, JobKeys::Host()), [this, then](const Reply& answer) {
                const Identity node0 = ParseIdentity(answer.values.front());
                const std::string& run_id = node_.options.run_id;
                if (node0.run_id != run_id) {
                  return node_.EndJoin(RunIdsDiffer(run_id, node0.run_id, node0.host));
                }
                if (node0.nnodes != node_.nnodes) {
                  return node_.EndJoin(NnodesDiffer(node_.nnodes, node0.nnodes));
                }
                then();
              });
            });
}

void NodeIdentity::PublishHost() {
  node_.Send(KeyRequest(Op::kSet, JobKeys::Host(), text_));
}

// Calls `then` with the identity of the store's host. "" means a store of another launcher,
// nullopt means that no store answers.
void NodeIdentity::AskWhoHosts(
    milliseconds timeout, std::function<void(const std::optional<std::string>& identity)> then) {
  host_query_ = node_.Connect(timeout);
  const auto answer = node_.InRound(std::move(then));
  host_query_->Call(
      KeysRequest(Op::kCheck, {JobKeys::Host()}),
      node_.InRound([this, answer](const Result<Reply>& reply) {
        if (!reply.has_value()) return answer(std::nullopt);
        if (reply->status != kCheckReady) return answer("");
        host_query_->Call(
            KeyRequest(Op::kGet, JobKeys::Host()), [answer](const Result<Reply>& got) {
              answer(got.has_value() ? std::optional(got->values.front()) : std::nullopt);
            });
      }));
}

void NodeIdentity::FindSecondHost() {
  AskWhoHosts(node_.options.rules.join_timeout, [this](const std::optional<std::string>& identity) {
    if (!identity || *identity == text_) return;
    node_.EndJoin(NodeRankTaken(0, ParseIdentity(*identity).host));
  });
}

void NodeIdentity::FailWithoutPort(const Error& taken) {
  AskWhoHosts(kAnswerTimeout, [this, taken](const std::optional<std::string>& identity) {
    if (!identity) return node_.EndJoin(taken);
    const Identity other = ParseIdentity(*identity);
    if (other.run_id == node_.options.run_id) {
      return node_.EndJoin(NodeRankTaken(0, other.host));
    }
    Error error = taken;
    error.what +=
        other.run_id.empty()
            ? " A store listens there: that of another launcher's node 0, or `ddprun "
              "store`."
            : " It belongs to node 0 of the job --rdzv_id=" + QuoteReceived(other.run_id) +
                  ", on " + other.host + ".";
    node_.EndJoin(error);
  });
}

}  // namespace ddprun::rendezvous
