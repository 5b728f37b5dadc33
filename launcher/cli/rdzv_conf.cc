#include "launcher/cli/rdzv_conf.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/ascii.h"
#include "base/suggest.h"
#include "launcher/cli/read_value.h"

namespace ddprun::launcher {

namespace {

using Conf = std::map<std::string, std::string>;

struct Key {
  std::string_view name;
  std::string_view expected;
  bool (*fits)(std::string_view text);
};

bool IsTime(std::string_view text) {
  std::chrono::milliseconds ignored{};
  return ReadSeconds(text, 0.001, ignored);
}

bool IsCount(std::string_view text) {
  int64_t ignored = 0;
  return ReadBounded(text, 1, 1000, ignored);
}

// As torch reads booleans here.
bool IsBool(std::string_view text) {
  const std::string word = AsciiLower(text);
  constexpr std::array<std::string_view, 10> kWords = {"1", "0",   "true", "false", "t",
                                                       "f", "yes", "no",   "y",     "n"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

constexpr std::string_view kSeconds = "a time in seconds, more than 0";

constexpr std::array<Key, 10> kKeys = {{
    {"join_timeout", kSeconds, IsTime},
    {"last_call_timeout", kSeconds, IsTime},
    {"close_timeout", kSeconds, IsTime},
    {"heartbeat_timeout", kSeconds, IsTime},
    {"keep_alive_interval", kSeconds, IsTime},
    {"keep_alive_max_attempt", "a number from 1 to 1000", IsCount},
    {"read_timeout", kSeconds, IsTime},
    {"timeout", kSeconds, IsTime},
    {"is_host", "true or false", IsBool},
    {"store_type", "tcp (a shared file cannot tell who is there)",
     [](std::string_view text) { return text == "tcp"; }},
}};

constexpr std::array<std::string_view, 7> kEtcdKeys = {
    "etcd_prefix", "protocol", "cert", "key", "cacert", "ssl_cert", "ssl_cert_key"};

Error BadKey(const std::string& key) {
  std::vector<std::string> names;
  std::string list;
  for (const Key& known : kKeys) {
    names.emplace_back(known.name);
    list += (list.empty() ? "" : ", ") + std::string(known.name);
  }
  const auto nearest = Nearest(key, names);
  return Error{.code = Code::kUsage,
               .title = "BAD VALUE",
               .where = "--rdzv_conf",
               .what = "--rdzv_conf has no key \"" + key + "\".",
               .hint = nearest ? "Did you mean " + *nearest + "?" : "It has:\n" + list + ".",
               .page = "bad-value"};
}

}  // namespace

bool SplitRdzvConf(std::string_view text, Conf& out) {
  Conf conf;
  text = Trimmed(text);
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view pair = text.substr(0, comma);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = Trimmed(pair.substr(0, equals));
    const std::string_view value = Trimmed(pair.substr(equals + 1));
    if (key.empty() || value.empty()) return false;
    conf[std::string(key)] = value;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return false;
  }
  out = std::move(conf);
  return true;
}

Status CheckRdzvConf(Conf& conf, std::vector<std::string>& notes) {
  for (auto it = conf.begin(); it != conf.end();) {
    const auto& [name, value] = *it;
    if (std::find(kEtcdKeys.begin(), kEtcdKeys.end(), name) != kEtcdKeys.end()) {
      notes.push_back("--rdzv_conf: " + name + " is for etcd and has no effect");
      it = conf.erase(it);
      continue;
    }
    const auto key = std::find_if(kKeys.begin(), kKeys.end(), [&key_name = name](const Key& known) {
      return known.name == key_name;
    });
    if (key == kKeys.end()) return BadKey(name);
    if (!key->fits(value)) {
      return Error{.code = Code::kUsage,
                   .title = "BAD VALUE",
                   .where = "--rdzv_conf",
                   .what = "--rdzv_conf: " + name + " is \"" + value + "\"; expected " +
                           std::string(key->expected) + ".",
                   .hint = "",
                   .page = "bad-value"};
    }
    ++it;
  }
  return {};
}

}  // namespace ddprun::launcher
