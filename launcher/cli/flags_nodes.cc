// How the nodes of a job find each other.
#include "launcher/cli/flag.h"
#include "launcher/cli/rdzv_conf.h"
#include "launcher/cli/read_value.h"
#include "rendezvous/net/address.h"

namespace ddprun::launcher {

namespace {

bool ReadNodes(std::string_view text, Options& options) {
  const size_t colon = text.find(':');
  int64_t low = 0;
  if (!ReadBounded(text.substr(0, colon), 1, kMaxNodes, low)) return false;
  int64_t high = low;
  if (colon != std::string_view::npos &&
      !ReadBounded(text.substr(colon + 1), low, kMaxNodes, high)) {
    return false;
  }
  options.min_nodes = static_cast<int>(low);
  options.max_nodes = static_cast<int>(high);
  return true;
}

bool ReadNodeRank(std::string_view text, Options& options) {
  int64_t value = 0;
  if (!ReadBounded(text, 0, kMaxNodes - 1, value)) return false;
  options.node_rank = static_cast<int>(value);
  return true;
}

// [::1] and ::1 are the same address; sockets and torch want it without brackets.
bool ReadAddress(std::string_view text, std::string& out) {
  if (text.empty() || text.find_first_of(" \t/") != std::string_view::npos) return false;
  if (text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  out = text;
  return true;
}

bool ReadPort(std::string_view text, Options& options) {
  int64_t value = 0;
  if (!ReadBounded(text, 0, 65535, value)) return false;
  options.master_port.reset();
  if (value != 0) options.master_port = static_cast<uint16_t>(value);
  return true;
}

std::vector<Flag> RendezvousFlags() {
  return {
      {.name = "rdzv_backend",
       .variable = "PET_RDZV_BACKEND",
       .value = "NAME",
       .group = FlagGroup::kNodes,
       .help = "static (a fixed set of nodes) or c10d (nodes may come and go) (default static)",
       .expected = "static or c10d",
       .completion = Completion::kChoices,
       .choices = "static c10d",
       .read =
           [](std::string_view text, Options& o) {
             o.rdzv_backend = text;
             return text == "static" || text == "c10d" || text.starts_with("etcd");
           }},
      {.name = "rdzv_endpoint",
       .variable = "PET_RDZV_ENDPOINT",
       .value = "HOST:PORT",
       .group = FlagGroup::kNodes,
       .help = "Where the nodes meet, the same on all (default: c10d localhost:29400; static "
               "master_addr:master_port)",
       .expected = "host, host:port or [IPv6 address]:port",
       .read =
           [](std::string_view text, Options& o) {
             o.rdzv_endpoint = Trimmed(text);
             return o.rdzv_endpoint.empty() ||
                    rendezvous::ParseHostPort(o.rdzv_endpoint).has_value();
           }},
      {.name = "rdzv_id",
       .variable = "PET_RDZV_ID",
       .value = "ID",
       .group = FlagGroup::kNodes,
       .help = "The job's name, the same on all nodes (default none)",
       .expected = "a name",
       .read =
           [](std::string_view text, Options& o) {
             o.rdzv_id = text;
             return !text.empty();
           }},
      {.name = "rdzv_conf",
       .variable = "PET_RDZV_CONF",
       .value = "K=V,K=V",
       .group = FlagGroup::kNodes,
       .help = "More about meeting, times in seconds: join_timeout, last_call_timeout, "
               "keep_alive_interval and others",
       .expected = "key=value pairs separated by commas, as in join_timeout=1200,read_timeout=60",
       .read = [](std::string_view text, Options& o) { return SplitRdzvConf(text, o.rdzv_conf); }},
  };
}

}  // namespace

std::vector<Flag> NodeFlags() {
  std::vector<Flag> flags = {
      {.name = "nnodes",
       .variable = "PET_NNODES",
       .value = "N|MIN:MAX",
       .group = FlagGroup::kNodes,
       .help = "Nodes in the job; a range is an elastic job (with c10d) (default 1)",
       .expected = "a number of nodes from 1 to 65536, or MIN:MAX with MIN up to MAX",
       .read = ReadNodes},
      {.name = "node_rank",
       .variable = "PET_NODE_RANK",
       .value = "N",
       .group = FlagGroup::kNodes,
       .help = "This node's rank, 0 to nnodes - 1 (default 0); with c10d a wish",
       .expected = "a number from 0 to 65535",
       .read = ReadNodeRank},
      {.name = "master_addr",
       .variable = "PET_MASTER_ADDR",
       .value = "HOST",
       .group = FlagGroup::kNodes,
       .help = "static: address of node 0 (default 127.0.0.1)",
       .expected = "a host name or an IP address",
       .read = [](std::string_view text, Options& o) { return ReadAddress(text, o.master_addr); }},
      {.name = "master_port",
       .variable = "PET_MASTER_PORT",
       .value = "PORT",
       .group = FlagGroup::kNodes,
       .help = "static: port of node 0 (default: a free one on one node, 29500 on several)",
       .expected = "a port from 1 to 65535, or 0 for a free one",
       .read = ReadPort},
  };
  for (const Flag& flag : RendezvousFlags()) flags.push_back(flag);
  flags.push_back(
      {.name = "local_addr",
       .variable = "PET_LOCAL_ADDR",
       .value = "HOST",
       .group = FlagGroup::kNodes,
       .help = "This node's address for the others (default: the one that reaches the "
               "endpoint)",
       .expected = "a host name or an IP address",
       .read = [](std::string_view text, Options& o) { return ReadAddress(text, o.local_addr); }});
  flags.push_back(
      {.name = "standalone",
       .variable = "PET_STANDALONE",
       .group = FlagGroup::kNodes,
       .help = "One node with a free port, whatever other flags say",
       .read = [](std::string_view text, Options& o) { return ReadSwitch(text, o.standalone); }});
  return flags;
}

}  // namespace ddprun::launcher
