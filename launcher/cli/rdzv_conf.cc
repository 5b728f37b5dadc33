#include <algorithm>
#include <array>
#include <chrono>

#include "base/text.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/read_value.h"

namespace ddprun::launcher {

namespace {

using Conf = std::map<std::string, std::string>;

using To = rendezvous::RendezvousOptions;

struct Key {
  std::string_view name;
  std::string_view expected;
  bool (*read)(std::string_view text, To& to);
};

bool IsTime(std::string_view text, To&) {
  std::chrono::milliseconds ignored{};
  return ReadSeconds(text, 0.001, ignored);
}

bool ReadJoinTimeout(std::string_view text, To& to) {
  return ReadSeconds(text, 0.001, to.rules.join_timeout);
}

// Accepts more words than ReadSwitch(), because torch does, too.
bool ReadIsHost(std::string_view text, To& to) {
  const auto is = [word = ToAsciiLower(text)](std::string_view known) { return word == known; };
  to.is_host = std::ranges::any_of(std::array{"1", "true", "t", "yes", "y"}, is);
  return *to.is_host || std::ranges::any_of(std::array{"0", "false", "f", "no", "n"}, is);
}

constexpr std::string_view kSeconds = "a time in seconds, more than 0";

// Keys are read in this order.
constexpr std::array<Key, 11> kKeys = {{
    // torchrun's c10d ignores this key, but users mean join_timeout.
    {"timeout", kSeconds, ReadJoinTimeout},
    {"join_timeout", kSeconds, ReadJoinTimeout},
    {"last_call_timeout", kSeconds,
     [](std::string_view text, To& to) {
       return ReadSeconds(text, 0.001, to.rules.last_call_timeout);
     }},
    {"close_timeout", kSeconds,
     [](std::string_view text, To& to) { return ReadSeconds(text, 0.001, to.close_timeout); }},
    {"heartbeat_timeout", kSeconds, IsTime},
    {"keep_alive_interval", kSeconds,
     [](std::string_view text, To& to) {
       return ReadSeconds(text, 0.001, to.keep_alive.interval);
     }},
    {"keep_alive_max_attempt", "a number from 1 to 1000",
     [](std::string_view text, To& to) {
       return ReadBounded(text, 1, 1000, to.keep_alive.max_attempts);
     }},
    {"stop_timeout", kSeconds,
     [](std::string_view text, To& to) { return ReadSeconds(text, 0.001, to.stop_timeout); }},
    {"read_timeout", kSeconds, IsTime},
    {"is_host", "true or false", ReadIsHost},
    {"store_type", "tcp (a shared file cannot tell who is there)",
     [](std::string_view text, To&) { return text == "tcp"; }},
}};

constexpr std::array<std::string_view, 7> kEtcdKeys = {
    "etcd_prefix", "protocol", "cert", "key", "cacert", "ssl_cert", "ssl_cert_key"};

Error BadKey(const std::string& key) {
  std::vector<std::string> names;
  for (const Key& known : kKeys) names.emplace_back(known.name);
  const auto nearest = FindNearest(key, names);
  return BadValue(
      "--rdzv_conf", "--rdzv_conf has no key \"" + key + "\".",
      nearest ? "Did you mean " + *nearest + "?" : "It has:\n" + FormatList(names) + ".");
}

}  // namespace

bool SplitRdzvConf(std::string_view text, Conf& out) {
  Conf conf;
  text = TrimBlanks(text);
  for (const std::string_view pair : SplitAt(text, ',')) {
    if (text.empty()) break;  // SplitAt() returns one empty part
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = TrimBlanks(pair.substr(0, equals));
    const std::string_view value = TrimBlanks(pair.substr(equals + 1));
    if (key.empty() || value.empty()) return false;
    conf[std::string(key)] = value;
  }
  out = std::move(conf);
  return true;
}

Status ReadRdzvConf(Options& options) {
  const Conf& conf = options.rdzv_conf;
  for (const auto& [name, value] : conf) {
    if (std::ranges::find(kEtcdKeys, name) != kEtcdKeys.end()) {
      options.notes.push_back("--rdzv_conf: " + name + " is for etcd and has no effect");
    } else if (std::ranges::find(kKeys, name, &Key::name) == kKeys.end()) {
      return BadKey(name);
    }
  }
  for (const Key& key : kKeys) {
    const auto given = conf.find(std::string(key.name));
    if (given == conf.end() || key.read(given->second, options.rdzv)) continue;
    return BadValue("--rdzv_conf", "--rdzv_conf: " + given->first + " is \"" + given->second +
                                       "\"; expected " + std::string(key.expected) + ".");
  }
  return {};
}

}  // namespace ddprun::launcher
