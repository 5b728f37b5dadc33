#include "launcher/store/store_options.h"

#include <array>
#include <map>

#include "base/env.h"
#include "base/text.h"

namespace ddprun::launcher {

namespace {

using Verb = StoreQueryOptions::Verb;

constexpr uint16_t kDefaultPort = 29400;  // torchrun's default for c10d

constexpr const char* kHelp =
    R"(A stand-alone store (c10d's TCPStore), and a look into any running one.

Usage: ddprun store [--host HOST] [--port PORT]
       ddprun store get KEY [--timeout S]     the value; with --timeout, waits for it
       ddprun store set KEY VALUE
       ddprun store wait KEY... [--timeout S] until all of them are there
       ddprun store list                      all keys
       ddprun store delete KEY
       ddprun store status                    connections, memory, who waits for what

Server
  --host HOST      the address to listen on; default: all of this machine's
  --port PORT      default 29400; 0 takes a free one

  Prints where it listens and serves until SIGTERM or Ctrl-C. Nodes of ddprun join with
  --rdzv_backend=c10d --rdzv_endpoint=HOST:PORT; for torchrun add --rdzv_conf=is_host=0.
  Votes, but does not lead, where a job's --rdzv_endpoint names it among several hosts.
  On SIGUSR1 it prints its state.

Questions
  --endpoint HOST:PORT  the store to ask; default: MASTER_ADDR and MASTER_PORT of the
                        environment, else localhost:29400
  --timeout SECONDS     default: get asks once, wait waits without limit

  KEY is a key as Python's clients name it, or as ddprun's messages show it, with a leading "/".

A program that is named "store" is started with `ddprun ./store`.
)";

Error Usage(const std::string& title, std::string where, std::string what, const char* page) {
  return Error{.code = Code::kUsage,
               .title = title,
               .where = std::move(where),
               .what = std::move(what),
               .hint = "Show what there is with: ddprun store --help.",
               .page = page};
}

Error BadValue(const std::string& flag, const std::string& text, const std::string& expected) {
  return Usage("BAD VALUE", flag, flag + " is \"" + text + "\"; expected " + expected + ".",
               "bad-value");
}

const std::map<std::string, Verb, std::less<>>& Verbs() {
  static const std::map<std::string, Verb, std::less<>> verbs = {
      {"get", Verb::kGet},   {"set", Verb::kSet},       {"wait", Verb::kWait},
      {"list", Verb::kList}, {"delete", Verb::kDelete}, {"status", Verb::kStatus}};
  return verbs;
}

// Flags with their values, and the words that are not flags.
struct Words {
  std::map<std::string, std::string, std::less<>> flags;
  std::vector<std::string> words;
  bool help = false;
};

Error UnknownFlag(const std::string& name, std::span<const std::string> known) {
  std::string what = "ddprun store has no flag " + name + ".";
  if (const auto nearest = FindNearest(name, known)) what += " Did you mean " + *nearest + "?";
  return Usage("UNKNOWN FLAG", name, what, "unknown-flag");
}

Result<Words> Split(const std::vector<std::string>& args) {
  static const std::array<std::string, 4> known = {"--host", "--port", "--endpoint", "--timeout"};
  Words result;
  bool only_words = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (only_words || !arg.starts_with("-") || arg == "-") {
      result.words.push_back(arg);
    } else if (arg == "--") {
      only_words = true;
    } else if (arg == "-h" || arg == "--help") {
      result.help = true;
    } else {
      const size_t equals = arg.find('=');
      const std::string name = arg.substr(0, equals);
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        return UnknownFlag(name, known);
      }
      const bool apart = equals == std::string::npos;
      if (apart && i + 1 == args.size()) {
        return Usage("BAD VALUE", name, name + " needs a value.", "bad-value");
      }
      result.flags[name] = apart ? args[++i] : arg.substr(equals + 1);
    }
  }
  return result;
}

Status RefuseFlags(const Words& words, std::span<const std::string_view> refused, const char* who) {
  for (const std::string_view name : refused) {
    if (!words.flags.contains(name)) continue;
    return Usage("FLAGS CONTRADICT", std::string(name),
                 std::string(name) + " has no meaning for " + who + ".", "flags-contradict");
  }
  return {};
}

Result<StoreOptions> ParseServe(const Words& words) {
  constexpr std::array<std::string_view, 2> kRefused = {"--endpoint", "--timeout"};
  DDPRUN_TRY(RefuseFlags(words, kRefused, "a server"));
  StoreServeOptions options;
  options.port = kDefaultPort;
  if (const auto host = words.flags.find("--host"); host != words.flags.end()) {
    DDPRUN_ASSIGN(const rendezvous::HostPort endpoint, rendezvous::ParseHostPort(host->second));
    if (endpoint.port != 0) return BadValue("--host", host->second, "an address without a port");
    options.host = endpoint.host;
  }
  if (const auto port = words.flags.find("--port"); port != words.flags.end()) {
    const auto number = ParseInt(port->second);
    if (!number || *number < 0 || *number > 65535) {
      return BadValue("--port", port->second, "0 to 65535");
    }
    options.port = static_cast<uint16_t>(*number);
  }
  return StoreOptions(options);
}

// Removes the "/" that Python's clients put before each key, and that messages show.
std::string KeyOf(const std::string& word) {
  return word.starts_with("/") ? word.substr(1) : word;
}

Status CheckWords(Verb verb, const std::string& name, size_t count) {
  size_t least = 0;
  const char* expected = "no more words";
  if (verb == Verb::kGet || verb == Verb::kDelete) {
    least = 1;
    expected = "one KEY";
  } else if (verb == Verb::kSet) {
    least = 2;
    expected = "KEY and VALUE";
  } else if (verb == Verb::kWait) {
    least = 1;
    expected = "one KEY or more";
  }
  if (count == least || (verb == Verb::kWait && count > least)) return {};
  return Usage(
      "BAD VALUE", "ddprun store " + name,
      "After \"" + name + "\" stand " + CountText(count, "word") + "; expected " + expected + ".",
      "bad-value");
}

std::string DefaultEndpoint(const Environment& env) {
  const std::string host = env.GetOr("MASTER_ADDR", "");
  const std::string port = env.GetOr("MASTER_PORT", "");
  if (host.empty() || port.empty()) return "localhost";
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
}

Result<StoreOptions> ParseQuery(const Words& words, const Environment& env) {
  const std::string& name = words.words.front();
  const auto verb = Verbs().find(name);
  if (verb == Verbs().end()) {
    std::vector<std::string> known;
    for (const auto& [word, ignored] : Verbs()) known.push_back(word);
    std::string what = "There is no \"ddprun store " + name + "\".";
    if (const auto nearest = FindNearest(name, known))
      what += " Did you mean \"" + *nearest + "\"?";
    return Usage("UNKNOWN COMMAND", name, what, "unknown-command");
  }
  constexpr std::array<std::string_view, 2> kRefused = {"--host", "--port"};
  DDPRUN_TRY(RefuseFlags(words, kRefused, "a question; the store's place is --endpoint"));
  DDPRUN_TRY(CheckWords(verb->second, name, words.words.size() - 1));
  StoreQueryOptions options;
  options.verb = verb->second;
  const auto endpoint = words.flags.find("--endpoint");
  DDPRUN_ASSIGN(
      options.endpoint,
      rendezvous::ParseHostPort(
          endpoint == words.flags.end() ? DefaultEndpoint(env) : endpoint->second, kDefaultPort));
  if (const auto timeout = words.flags.find("--timeout"); timeout != words.flags.end()) {
    options.timeout = ParseSeconds(timeout->second, 0);
    if (!options.timeout) return BadValue("--timeout", timeout->second, "seconds, 0 or more");
  }
  options.keys.assign(words.words.begin() + 1, words.words.end());
  if (options.verb == Verb::kSet) {
    options.value = options.keys.back();
    options.keys.pop_back();
  }
  for (std::string& key : options.keys) key = KeyOf(key);
  return StoreOptions(options);
}

}  // namespace

Result<StoreOptions> ParseStoreOptions(const std::vector<std::string>& args,
                                       const Environment& env) {
  DDPRUN_ASSIGN(const Words words, Split(args));
  if (words.help) return StoreOptions(StoreHelp{kHelp});
  return words.words.empty() ? ParseServe(words) : ParseQuery(words, env);
}

}  // namespace ddprun::launcher
