#include "rendezvous/static/join_watch.h"

#include <utility>

#include "base/text.h"
#include "rendezvous/join_text.h"
#include "rendezvous/net/quote_received.h"

namespace ddprun::rendezvous {

void JoinWatch::Start() {
  joined_.clear();
  looking_ = false;
  node_.After(node_.deadline, node_.options.rules.join_timeout, [this] { OnDeadline(); });
  if (!node_.alone()) AwaitProgressTime();
}

void JoinWatch::OnDeadline() {
  const HostPort& endpoint = node_.options.endpoint;
  const auto waited = node_.options.rules.join_timeout;
  if (node_.is_host() && node_.server == nullptr) {
    return node_.EndJoin(NoOwnName(endpoint, waited));
  }
  // The connection has the same deadline. Its error says why it is not connected.
  if (node_.connection != nullptr && !node_.connection->connected()) return;
  if (node_.is_host()) joined_ = DescribeJoined(node_.nnodes, host_.missing());
  Error error = NodesMissing(endpoint, node_.is_host(), joined_, waited);
  if (!other_job_.empty()) error.what += "\nAnother job is here" + other_job_ + ".";
  node_.EndJoin(std::move(error));
}

void JoinWatch::AwaitProgressTime() {
  node_.After(node_.progress, node_.options.progress_interval, [this] {
    AwaitProgressTime();
    ReportProgress();
  });
}

void JoinWatch::ReportProgress() {
  if (node_.is_host()) {
    // There is no server yet while node 0 resolves the endpoint's name or asks who has the port.
    if (node_.server != nullptr) ReportJoined();
    return;
  }
  if (!node_.connection->connected()) {
    const std::string problem = node_.connection->last_problem();
    return node_.ReportLine("waiting for node 0 at " + ToString(node_.options.endpoint) +
                            (problem.empty() ? "" : " (" + problem + ")"));
  }
  if (!node_.hosted_by_ddprun) return;
  if (*node_.hosted_by_ddprun) return ReportLineOfHost();
  if (!std::exchange(looking_, true)) LookForNode(0, {});
}

// Reports which nodes have joined. Node 0 also sees the keys of nodes that look for another job.
void JoinWatch::ReportJoined() {
  const std::string last = std::exchange(joined_, DescribeJoined(node_.nnodes, host_.missing()));
  if (joined_ != last) {
    node_.Send(KeyRequest(Op::kSet, node_.keys.Joined(node_.round), joined_));
  }
  node_.server->Call(
      KeyRequest(Op::kListKeys, ""), node_.InRound([this](const Result<Reply>& reply) {
        if (!node_.joining()) return;
        other_job_.clear();
        const auto keys = reply.has_value() ? reply->values : std::vector<std::string>();
        for (const std::string& key : keys) {
          const auto other = node_.keys.OtherJob(key);
          if (!other) continue;
          other_job_ = "; node " + other->second +
                       " came with --rdzv_id=" + QuoteReceived(other->first) + ", this job has " +
                       QuoteReceived(node_.options.run_id);
          break;
        }
        node_.ReportLine(DescribeJoined(node_.nnodes, host_.missing()) + other_job_);
      }));
}

// Reports the line that node 0 wrote, because the store could not bear that every node looks at
// the key of every other node.
void JoinWatch::ReportLineOfHost() {
  constexpr size_t kMostShown = 1000;
  const std::string key = node_.keys.Joined(node_.round);
  node_.Ask(KeysRequest(Op::kCheck, {key}), [this, key](const Reply& there) {
    if (there.status != kCheckReady) return;
    node_.Ask(KeyRequest(Op::kGet, key), [this](const Reply& reply) {
      joined_ = MakePrintable(reply.values.front()).substr(0, kMostShown);
      node_.ReportLine(joined_);
    });
  });
}

// Looks for `node` and later nodes in the store of torchrun's node 0. It checks key by key, because
// a CHECK of several keys does not say which of them exist.
void JoinWatch::LookForNode(int node, const std::vector<int>& missing) {
  if (node == node_.nnodes) {
    looking_ = false;
    joined_ = DescribeJoined(node_.nnodes, missing);
    return node_.ReportLine(joined_);
  }
  node_.Ask(KeysRequest(Op::kCheck, {node_.keys.RoleInfo(node_.round, node)}),
            [this, node, missing](const Reply& reply) {
              std::vector<int> now_missing = missing;
              if (reply.status != kCheckReady) now_missing.push_back(node);
              LookForNode(node + 1, now_missing);
            });
}

}  // namespace ddprun::rendezvous
