#include "rendezvous/elastic/make_rendezvous.h"

#include <string_view>
#include <utility>

#include "base/ascii.h"
#include "base/env.h"
#include "base/seconds.h"
#include "rendezvous/elastic/elastic_rendezvous.h"
#include "rendezvous/static_rendezvous.h"

namespace ddprun::rendezvous {

namespace {

using std::chrono::milliseconds;

constexpr uint16_t kStaticPort = 29500;
constexpr uint16_t kElasticPort = 29400;

Error BadConf(const std::string& key, const std::string& value, std::string_view expected) {
  Error error;
  error.code = Code::kUsage;
  error.title = "BAD VALUE";
  error.where = "--rdzv_conf";
  error.what = key + " is \"" + value + "\"; " + std::string(expected) + " is expected.";
  error.page = "bad-value";
  return error;
}

// The values of --rdzv_conf with the first problem among them.
class Conf {
 public:
  explicit Conf(const std::map<std::string, std::string>& values) : values_(values) {}

  milliseconds Seconds(const std::string& key, milliseconds fallback) {
    const auto found = values_.find(key);
    if (found == values_.end()) return fallback;
    const auto time = ParseSeconds(found->second, 0.001);
    if (!time) Note(key, found->second, "a time in seconds, more than 0");
    return time.value_or(fallback);
  }

  int Count(const std::string& key, int fallback) {
    const auto found = values_.find(key);
    if (found == values_.end()) return fallback;
    const auto count = ParseInt(found->second);
    if (count && *count >= 1 && *count <= 1000) return static_cast<int>(*count);
    Note(key, found->second, "a number from 1 to 1000");
    return fallback;
  }

  std::optional<bool> Flag(const std::string& key) {
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    const std::string text = AsciiLower(found->second);
    for (const char* yes : {"1", "true", "t", "yes", "y"}) {
      if (text == yes) return true;
    }
    for (const char* no : {"0", "false", "f", "no", "n"}) {
      if (text == no) return false;
    }
    Note(key, found->second, "true or false");
    return std::nullopt;
  }

  const std::optional<Error>& problem() const { return problem_; }

 private:
  void Note(const std::string& key, const std::string& value, std::string_view expected) {
    if (!problem_) problem_ = BadConf(key, value, expected);
  }

  const std::map<std::string, std::string>& values_;
  std::optional<Error> problem_;
};

Result<std::unique_ptr<Rendezvous>> MakeStatic(asio::io_context& io,
                                               const RendezvousOptions& options) {
  Conf conf(options.conf);
  StaticOptions result;
  result.run_id = options.run_id;
  result.nnodes = options.max_nodes;
  result.node_rank = options.max_nodes == 1 ? 0 : options.node_rank.value_or(0);
  result.local_world_size = options.local_world_size;
  result.role = options.role;
  const uint16_t default_port = options.max_nodes == 1 ? 0 : kStaticPort;
  result.endpoint = {options.master_addr, options.master_port.value_or(default_port)};
  result.join_timeout = conf.Seconds("timeout", result.join_timeout);
  result.on_progress = options.on_progress;
  if (conf.problem()) return *conf.problem();
  DDPRUN_ASSIGN(auto rendezvous, StaticRendezvous::Create(io, std::move(result)));
  return std::unique_ptr<Rendezvous>(std::move(rendezvous));
}

Result<std::unique_ptr<Rendezvous>> MakeElastic(asio::io_context& io,
                                                const RendezvousOptions& options,
                                                HostPort endpoint) {
  Conf conf(options.conf);
  ElasticOptions result;
  result.run_id = options.run_id;
  result.rules.min_nodes = options.min_nodes;
  result.rules.max_nodes = options.max_nodes;
  result.rules.max_restarts = options.max_restarts;
  // torchrun ignores "timeout" here, though its users give it for this.
  result.rules.join_timeout =
      conf.Seconds("join_timeout", conf.Seconds("timeout", result.rules.join_timeout));
  result.rules.last_call_timeout =
      conf.Seconds("last_call_timeout", result.rules.last_call_timeout);
  result.close_timeout = conf.Seconds("close_timeout", result.close_timeout);
  result.keep_alive.interval = conf.Seconds("keep_alive_interval", result.keep_alive.interval);
  result.keep_alive.max_attempts =
      conf.Count("keep_alive_max_attempt", result.keep_alive.max_attempts);
  result.is_host = conf.Flag("is_host");
  if (conf.problem()) return *conf.problem();
  result.wished_rank = options.node_rank;
  result.local_world_size = options.local_world_size;
  result.role = options.role;
  result.endpoint = std::move(endpoint);
  result.local_addr = options.local_addr;
  result.on_progress = options.on_progress;
  result.on_debug = options.on_debug;
  DDPRUN_ASSIGN(auto rendezvous, ElasticRendezvous::Create(io, std::move(result)));
  return std::unique_ptr<Rendezvous>(std::move(rendezvous));
}

}  // namespace

Result<std::unique_ptr<Rendezvous>> MakeRendezvous(asio::io_context& io,
                                                   const RendezvousOptions& options) {
  if (options.backend == "static") return MakeStatic(io, options);
  HostPort endpoint{"localhost", options.max_nodes == 1 ? uint16_t{0} : kElasticPort};
  if (!options.endpoint.empty()) {
    DDPRUN_ASSIGN(endpoint, ParseHostPort(options.endpoint, kElasticPort));
  }
  // One node that nobody can find needs no coordinator.
  if (options.max_nodes == 1 && endpoint.port == 0) {
    RendezvousOptions alone = options;
    alone.master_addr = "127.0.0.1";
    alone.master_port.reset();
    return MakeStatic(io, alone);
  }
  return MakeElastic(io, options, std::move(endpoint));
}

}  // namespace ddprun::rendezvous
