// Flags by which the nodes of a job find each other.
#include <algorithm>

#include "base/text.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/flag.h"
#include "launcher/cli/read_value.h"
#include "rendezvous/backends.h"

namespace ddprun::launcher {

namespace {

bool ReadNodes(std::string_view text, Options& options) {
  const size_t colon = text.find(':');
  int low = 0;
  if (!ReadBounded(text.substr(0, colon), 1, rendezvous::kMaxNodes, low)) return false;
  int high = low;
  if (colon != std::string_view::npos &&
      !ReadBounded(text.substr(colon + 1), low, rendezvous::kMaxNodes, high)) {
    return false;
  }
  options.rdzv.rules.min_nodes = low;
  options.rdzv.rules.max_nodes = high;
  return true;
}

// Removes the brackets of [::1], because sockets and torch want ::1.
bool ReadAddress(std::string_view text, std::string& out) {
  if (text.empty() || text.find_first_of(" \t/") != std::string_view::npos) return false;
  if (text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  out = text;
  return true;
}

// Returns "static or c10d", if `between` is " or ".
const std::string& BackendNames(const char* between) {
  static std::map<std::string_view, std::string> lists;
  std::string& list = lists[between];
  if (!list.empty()) return list;
  for (const rendezvous::Backend* backend : rendezvous::Backends()) {
    list += (list.empty() ? "" : between) + std::string(backend->name);
  }
  return list;
}

std::vector<Flag> RendezvousFlags() {
  return {
      {.name = "rdzv_backend",
       .variable = "PET_RDZV_BACKEND",
       .value = "NAME",
       .help = "static (a fixed set of nodes) or c10d (nodes may come and go) (default static)",
       .expected = BackendNames(" or "),
       .completion = Completion::kChoices,
       .choices = BackendNames(" "),
       .read =
           [](std::string_view text, Options& o) {
             o.rdzv_backend = text;
             return rendezvous::FindBackend(text) != nullptr || text.starts_with("etcd");
           }},
      {.name = "rdzv_endpoint",
       .variable = "PET_RDZV_ENDPOINT",
       .value = "HOST:PORT",
       .help = "Where the nodes meet, the same on all (default: c10d localhost:29400; static "
               "master_addr:master_port). With c10d also A,B,C: three hosts or more, of which a "
               "minority may be lost",
       .expected = "host, host:port or [IPv6 address]:port, or several of them",
       .read =
           [](std::string_view text, Options& o) {
             o.rdzv_endpoint = TrimBlanks(text);
             return o.rdzv_endpoint.empty() ||
                    std::ranges::all_of(SplitAt(o.rdzv_endpoint, ','), [](std::string_view host) {
                      return rendezvous::ParseHostPort(TrimBlanks(host)).has_value();
                    });
           }},
      {.name = "rdzv_id",
       .variable = "PET_RDZV_ID",
       .value = "ID",
       .help = "The job's name, the same on all nodes (default none)",
       .expected = "a name in UTF-8",
       .read = [](std::string_view text,
                  Options& o) { return IsUtf8(text) && ReadText(text, o.rdzv.run_id); }},
      {.name = "rdzv_conf",
       .variable = "PET_RDZV_CONF",
       .value = "K=V,K=V",
       .help = "More about meeting, times in seconds: join_timeout, last_call_timeout, "
               "keep_alive_interval and others",
       .expected = "key=value pairs separated by commas, as in join_timeout=1200,read_timeout=60",
       .read = [](std::string_view text, Options& o) { return SplitRdzvConf(text, o.rdzv_conf); }},
  };
}

// StartHosts() reads their values before the options of a job are known.
std::vector<Flag> HostFlags() {
  return {
      {.name = "hostfile",
       .short_names = "hostfile",
       .value = "FILE",
       .of_torchrun = false,
       .help = "Start an agent by ssh on each host of FILE, which has lines HOST [slots=N]",
       .expected = "a file",
       .completion = Completion::kFile,
       .read = [](std::string_view text, Options&) { return !text.empty(); }},
      {.name = "ssh_command",
       .value = "COMMAND",
       .of_torchrun = false,
       .help = "hostfile: how to reach a host (default \"ssh -o BatchMode=yes -o "
               "ServerAliveInterval=15\")",
       .expected = "a program and its options, separated by blanks",
       .read = [](std::string_view text, Options&) { return !TrimBlanks(text).empty(); }},
  };
}

}  // namespace

std::vector<Flag> NodeFlags() {
  std::vector<Flag> flags = {
      {.name = "nnodes",
       .variable = "PET_NNODES",
       .value = "N|MIN:MAX",
       .help = "Nodes in the job; a range is an elastic job (with c10d) (default 1)",
       .expected = "a number of nodes from 1 to 65536, or MIN:MAX with MIN up to MAX",
       .read = ReadNodes},
      {.name = "spares",
       .value = "N",
       .of_torchrun = false,
       .help = "c10d: nodes besides those of --nnodes that wait and replace a lost one (default 0)",
       .expected = "a number from 0 to 65536",
       .read =
           [](std::string_view text, Options& o) {
             return ReadBounded(text, 0, rendezvous::kMaxNodes, o.rdzv.rules.spares);
           }},
      {.name = "node_rank",
       .variable = "PET_NODE_RANK",
       .value = "N",
       .help = "This node's rank, 0 to nnodes - 1 (default 0); with c10d a wish",
       .expected = "a number from 0 to 65535",
       .read =
           [](std::string_view text, Options& o) {
             return ReadBounded(text, 0, rendezvous::kMaxNodes - 1, o.rdzv.node_rank.emplace());
           }},
      {.name = "master_addr",
       .variable = "PET_MASTER_ADDR",
       .value = "HOST",
       .help = "static: address of node 0 (default 127.0.0.1)",
       .expected = "a host name or an IP address",
       .read = [](std::string_view text,
                  Options& o) { return ReadAddress(text, o.rdzv.endpoint.host); }},
      {.name = "master_port",
       .variable = "PET_MASTER_PORT",
       .value = "PORT",
       .help = "static: port of node 0 (default: a free one on one node, 29500 on several)",
       .expected = "a port from 1 to 65535, or 0 for a free one",
       .read = [](std::string_view text,
                  Options& o) { return ReadPort(text, o.rdzv.endpoint.port); }},
  };
  for (const Flag& flag : RendezvousFlags()) flags.push_back(flag);
  flags.push_back({.name = "local_addr",
                   .variable = "PET_LOCAL_ADDR",
                   .value = "HOST",
                   .help = "This node's address for the others (default: the one that reaches the "
                           "endpoint)",
                   .expected = "a host name or an IP address",
                   .read = [](std::string_view text, Options& o) {
                     return ReadAddress(text, o.rdzv.local_addr);
                   }});
  flags.push_back({.name = "network_interface",
                   .value = "NAME",
                   .of_torchrun = false,
                   .help = "Talk to the other nodes over eth1, or over what has an address in "
                           "10.1.0.0/16",
                   .expected = "the name of an interface, or a network as 10.1.0.0/16",
                   .read = [](std::string_view text, Options& o) {
                     return ReadText(text, o.network_interface);
                   }});
  for (const Flag& flag : HostFlags()) flags.push_back(flag);
  flags.push_back(
      {.name = "standalone",
       .variable = "PET_STANDALONE",
       .help = "One node with a free port, whatever other flags say",
       .read = [](std::string_view text, Options& o) { return ReadSwitch(text, o.standalone); }});
  return flags;
}

}  // namespace ddprun::launcher
