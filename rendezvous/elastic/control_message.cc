#include "rendezvous/elastic/control_message.h"

#include <algorithm>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "rendezvous/peer_json.h"

namespace ddprun::rendezvous {

using nlohmann::json;
using std::chrono::milliseconds;

namespace {

constexpr size_t kMaxShortText = 512;
constexpr size_t kMaxHostsText = 4 << 10;
constexpr size_t kMaxJobText = 8 << 10;  // of a ballot: its run id and its hosts
constexpr size_t kMaxEndText = 4 << 10;
constexpr size_t kMaxWorkerBytes = 128 << 10;
constexpr int64_t kMaxMs = int64_t{1000} * 3600 * 24 * 366;  // the limit of ParseSeconds()

Error BadHello(const std::string& what) {
  return {.title = "BAD HELLO", .what = what};
}

// Returns a short text without control characters, because it becomes part of lines and errors on
// other nodes.
std::string ShortText(const json& message, const char* key) {
  return MakePrintable(TextOf(message, key).substr(0, kMaxShortText));
}

bool InRange(int64_t value, int64_t least, int64_t most) {
  return least <= value && value <= most;
}

std::optional<Past> PastOf(const json& message) {
  const Past past{.rounds = SmallOf(message, "rounds"),
                  .restarts = SmallOf(message, "restarts"),
                  .nodes = SmallOf(message, "nodes")};
  const bool sane = past.rounds >= 1 && past.restarts >= 0 && InRange(past.nodes, 1, kMaxNodes);
  return sane ? std::optional(past) : std::nullopt;
}

// Numbers without a sign travel as numbers with one.
uint64_t IdOf(const json& message, const char* key) {
  return static_cast<uint64_t>(NumberOf(message, key));
}

}  // namespace

json ToJson(const Hello& hello) {
  json message = {{"type", "hello"},
                  {"protocol", hello.protocol},
                  {"run_id", hello.run_id},
                  {"requeues", hello.requeues},
                  {"min_nodes", hello.rules.min_nodes},
                  {"max_nodes", hello.rules.max_nodes},
                  {"max_restarts", hello.rules.max_restarts},
                  {"spares", hello.rules.spares},
                  {"join_timeout_ms", hello.rules.join_timeout.count()},
                  {"last_call_timeout_ms", hello.rules.last_call_timeout.count()},
                  {"host", hello.node.host},
                  {"pid", hello.node.pid},
                  {"local_world_size", hello.node.local_world_size},
                  {"role", hello.node.role},
                  {"keep_alive_interval_ms", hello.keep_alive.interval.count()},
                  {"keep_alive_max_attempt", hello.keep_alive.max_attempts},
                  {"local_addr", hello.local_addr}};
  if (hello.node.wished_rank) message["node_rank"] = *hello.node.wished_rank;
  if (!hello.hosts.empty()) message["hosts"] = hello.hosts;
  if (hello.stop_time.count() > 0) message["stop_time_ms"] = hello.stop_time.count();
  if (const auto& past = hello.node.past) {
    message["past"] = {
        {"rounds", past->rounds}, {"restarts", past->restarts}, {"nodes", past->nodes}};
  }
  return message;
}

Result<Hello> ParseHello(const json& message) {
  if (TextOf(message, "type") != "hello") return BadHello("it did not introduce itself");
  Hello hello;
  hello.protocol = SmallOf(message, "protocol");
  if (hello.protocol != kControlProtocol) {
    return BadHello("it speaks version " + std::to_string(hello.protocol) +
                    " of the protocol, this coordinator version " +
                    std::to_string(kControlProtocol) + ": use the same ddprun on all nodes");
  }
  hello.run_id = TextOf(message, "run_id");
  hello.requeues = std::max(0, SmallOf(message, "requeues"));  // an older ddprun sends none
  hello.rules.min_nodes = SmallOf(message, "min_nodes");
  hello.rules.max_nodes = SmallOf(message, "max_nodes");
  hello.rules.max_restarts = SmallOf(message, "max_restarts");
  hello.rules.spares = std::max(0, SmallOf(message, "spares"));  // an older ddprun sends none
  hello.rules.join_timeout = milliseconds(NumberOf(message, "join_timeout_ms"));
  hello.rules.last_call_timeout = milliseconds(NumberOf(message, "last_call_timeout_ms"));
  hello.node.host = ShortText(message, "host");
  hello.node.pid = SmallOf(message, "pid");
  hello.node.local_world_size = SmallOf(message, "local_world_size");
  hello.node.role = ShortText(message, "role");
  if (message.contains("node_rank")) hello.node.wished_rank = SmallOf(message, "node_rank");
  hello.keep_alive.interval = milliseconds(NumberOf(message, "keep_alive_interval_ms"));
  hello.keep_alive.max_attempts = SmallOf(message, "keep_alive_max_attempt");
  hello.local_addr = ShortText(message, "local_addr");
  hello.hosts = TextOf(message, "hosts");
  hello.stop_time = milliseconds(NumberOf(message, "stop_time_ms", 0));
  if (message.contains("past")) hello.node.past = PastOf(message["past"]);
  const bool sane = InRange(hello.rules.min_nodes, 1, hello.rules.max_nodes) &&
                    InRange(hello.rules.max_nodes, 1, kMaxNodes) && hello.rules.max_restarts >= 0 &&
                    InRange(hello.rules.join_timeout.count(), 1, kMaxMs) &&
                    InRange(hello.rules.last_call_timeout.count(), 0, kMaxMs) &&
                    InRange(hello.node.local_world_size, 0, kMaxLocalWorkers) &&
                    InRange(hello.keep_alive.interval.count(), 1, kMaxMs) &&
                    InRange(hello.keep_alive.max_attempts, 1, 1'000'000) &&
                    hello.hosts.size() <= kMaxHostsText &&
                    InRange(hello.stop_time.count(), 0, kMaxMs);
  if (!sane) return BadHello("its numbers make no sense");
  return hello;
}

json ToJson(const Ballot& ballot) {
  json message = {{"type", "ballot"},
                  {"kind", static_cast<int>(ballot.kind)},
                  {"job", ballot.job},
                  {"candidate", ballot.candidate},
                  {"epoch", ballot.epoch},
                  {"process", static_cast<int64_t>(ballot.process)},
                  {"lease_ms", ballot.lease.count()},
                  {"all_new", json::array()}};
  for (const uint64_t id : ballot.all_new) message["all_new"].push_back(static_cast<int64_t>(id));
  return message;
}

std::optional<Ballot> BallotOf(const json& message) {
  Ballot ballot;
  const int kind = SmallOf(message, "kind");
  ballot.kind = static_cast<Ballot::Kind>(kind);
  ballot.job = TextOf(message, "job");
  ballot.candidate = SmallOf(message, "candidate");
  ballot.epoch = NumberOf(message, "epoch");
  ballot.process = IdOf(message, "process");
  ballot.lease = milliseconds(NumberOf(message, "lease_ms"));
  const json ids = message.contains("all_new") ? message["all_new"] : json();
  for (const json& id : ids) {
    if (id.is_number_integer() && ballot.all_new.size() < kMaxHosts) {
      ballot.all_new.push_back(static_cast<uint64_t>(id.get<int64_t>()));
    }
  }
  const bool sane = InRange(kind, 0, 2) && InRange(ballot.candidate, 0, kMaxHosts - 1) &&
                    InRange(ballot.epoch, 0, INT64_MAX - 1) &&
                    InRange(ballot.lease.count(), 1, kMaxMs) && ballot.job.size() <= kMaxJobText;
  return sane ? std::optional(std::move(ballot)) : std::nullopt;
}

json ToJson(const Vote& vote) {
  return {
      {"type", "vote"},      {"granted", vote.granted}, {"voter", static_cast<int64_t>(vote.voter)},
      {"epoch", vote.epoch}, {"leader", vote.leader},   {"left_ms", vote.left.count()}};
}

std::optional<Vote> VoteOf(const json& message) {
  if (TextOf(message, "type") != "vote") return std::nullopt;
  const Vote vote{.granted = FlagOf(message, "granted"),
                  .voter = IdOf(message, "voter"),
                  .epoch = NumberOf(message, "epoch"),
                  .leader = SmallOf(message, "leader"),
                  .left = milliseconds(NumberOf(message, "left_ms"))};
  const bool sane = InRange(vote.epoch, 0, INT64_MAX - 1) && InRange(vote.left.count(), 0, kMaxMs);
  return sane ? std::optional(vote) : std::nullopt;
}

std::optional<uint16_t> PortOf(const json& message, const char* key) {
  const int64_t port = NumberOf(message, key);
  if (!InRange(port, 1, 65535)) return std::nullopt;
  return static_cast<uint16_t>(port);
}

RoundEnd EndOf(const json& message) {
  RoundEnd end = RoundEndOf(message);
  if (end.message.size() > kMaxEndText) end.message = end.message.substr(0, kMaxEndText) + " ...";
  if (end.worker == nullptr) return end;
  const std::string worker = end.worker->dump(-1, ' ', false, json::error_handler_t::replace);
  if (worker.size() > kMaxWorkerBytes) end.worker = nullptr;
  return end;
}

json ToJson(const OpenStore& open, const StorePlace& place) {
  return {{"type", "open"},
          {"attempt", open.attempt},
          {"address", place.address},
          {"loopback_only", place.loopback_only}};
}

json ToJson(const ReachStore& reach) {
  const Membership& membership = reach.membership;
  return {{"type", "reach"},
          {"attempt", reach.attempt},
          {"round", membership.round},
          {"restart_count", membership.restart_count},
          {"node_rank", membership.node_rank},
          {"nnodes", membership.nnodes},
          {"base_rank", membership.base_rank},
          {"world_size", membership.world_size},
          {"role_base_rank", membership.role_base_rank},
          {"role_world_size", membership.role_world_size},
          {"master_addr", membership.master_addr},
          {"master_port", membership.master_port},
          {"stands_in", membership.stands_in}};
}

std::optional<Membership> MembershipOf(const json& reach) {
  Membership membership;
  membership.round = SmallOf(reach, "round");
  membership.restart_count = SmallOf(reach, "restart_count");
  membership.node_rank = SmallOf(reach, "node_rank");
  membership.nnodes = SmallOf(reach, "nnodes");
  membership.base_rank = SmallOf(reach, "base_rank");
  membership.world_size = SmallOf(reach, "world_size");
  membership.role_base_rank = SmallOf(reach, "role_base_rank");
  membership.role_world_size = SmallOf(reach, "role_world_size");
  membership.master_addr = TextOf(reach, "master_addr");
  membership.master_port = PortOf(reach, "master_port").value_or(0);
  membership.stands_in = FlagOf(reach, "stands_in");
  const bool sane = membership.round >= 0 && membership.restart_count >= 0 &&
                    InRange(membership.node_rank, 0, int64_t{membership.nnodes} - 1) &&
                    InRange(membership.base_rank, 0, membership.world_size) &&
                    InRange(membership.role_base_rank, 0, membership.role_world_size) &&
                    !membership.master_addr.empty() && membership.master_port != 0;
  if (!sane) return std::nullopt;
  return membership;
}

json ToJson(const StartRound& start) {
  return {{"type", "start"}, {"attempt", start.attempt}};
}

json ToJson(const AskToGoOn& ask) {
  return {{"type", "lost"}, {"attempt", ask.attempt}, {"loss", ask.loss}};
}

json EndMessage(const char* type, int64_t attempt, const RoundEnd& end) {
  json message = ToJson(end);
  message["type"] = type;
  message["attempt"] = attempt;
  return message;
}

json ToJson(const ReportEnd& end) {
  return EndMessage("end", end.attempt, end.end);
}

json ToJson(const AllLeft& left) {
  return {{"type", "all_left"}, {"attempt", left.attempt}};
}

json ToJson(const RefuseJoin& refuse) {
  return {{"type", "refuse"},
          {"title", refuse.error.title},
          {"where", refuse.error.where},
          {"what", refuse.error.what},
          {"hint", refuse.error.hint},
          {"page", refuse.error.page},
          {"not_needed", refuse.error.code == Code::kNotNeeded}};
}

Error RefusalOf(const json& refuse) {
  return {.code = FlagOf(refuse, "not_needed") ? Code::kNotNeeded : Code::kRendezvous,
          .title = TextOf(refuse, "title"),
          .where = TextOf(refuse, "where"),
          .what = TextOf(refuse, "what"),
          .hint = TextOf(refuse, "hint"),
          .page = TextOf(refuse, "page")};
}

json ToJson(const ReportProgress& progress) {
  return {{"type", "progress"}, {"line", progress.line}};
}

Actions TakeMessage(RoundState& state,
                    const Sender& sender,
                    const json& message,
                    RoundState::Time now) {
  const std::string type = TextOf(message, "type");
  const int64_t attempt = NumberOf(message, "attempt");
  const NodeId id = sender.id;
  if (type == "join") return state.OnJoin(id, sender.info, now);
  if (type == "opened") {
    const auto port = PortOf(message, "port");
    if (!port) return state.OnUnreached(id, attempt, "it has no port", now);
    return state.OnOpened(id, attempt, {sender.store_address, *port});
  }
  if (type == "reached") return state.OnReached(id, attempt);
  if (type == "unreached") {
    return state.OnUnreached(id, attempt, ShortText(message, "problem"), now);
  }
  if (type == "goes_on") return state.OnAnswer(id, attempt, FlagOf(message, "yes"), now);
  if (type == "end") return state.OnEnd(id, attempt, EndOf(message), now);
  if (type == "leave") return state.OnLeave(id, attempt, now);
  if (type == "withdraw") {
    return state.OnWithdraw(id, EndOf(message), FlagOf(message, "ends_job"), now,
                            sender.is_awaited);
  }
  return {};
}

}  // namespace ddprun::rendezvous
