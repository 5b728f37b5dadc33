#include "rendezvous/elastic/control_message.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "rendezvous/peer_json.h"

namespace ddprun::rendezvous {

using nlohmann::json;
using std::chrono::milliseconds;

namespace {

constexpr size_t kMaxShortText = 512;
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
  const bool sane = InRange(hello.rules.min_nodes, 1, hello.rules.max_nodes) &&
                    InRange(hello.rules.max_nodes, 1, kMaxNodes) && hello.rules.max_restarts >= 0 &&
                    InRange(hello.rules.join_timeout.count(), 1, kMaxMs) &&
                    InRange(hello.rules.last_call_timeout.count(), 0, kMaxMs) &&
                    InRange(hello.node.local_world_size, 0, kMaxLocalWorkers) &&
                    InRange(hello.keep_alive.interval.count(), 1, kMaxMs) &&
                    InRange(hello.keep_alive.max_attempts, 1, 1'000'000);
  if (!sane) return BadHello("its numbers make no sense");
  return hello;
}

std::string ProblemOf(const json& unreached) {
  return ShortText(unreached, "problem");
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
          {"master_port", membership.master_port}};
}

std::optional<uint16_t> PortOf(const json& message, const char* key) {
  const int64_t port = NumberOf(message, key);
  if (!InRange(port, 1, 65535)) return std::nullopt;
  return static_cast<uint16_t>(port);
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

}  // namespace ddprun::rendezvous
