#include "launcher/cli/node_flags.h"

#include "base/shell_text.h"
#include "rendezvous/net/address.h"

namespace ddprun::launcher {

std::string NodeFlagsText(const Options& options) {
  const rendezvous::RendezvousOptions& rdzv = options.rdzv;
  // The agents of one host get the same flags: --nnodes would count the agents.
  if (!options.several_nodes() || options.host_share) return "";
  std::string text;
  const auto add = [&](const std::string& name, const std::string& value) {
    const bool needed = !options.in_cluster || options.given.contains(name);
    if (needed && !value.empty()) text += "--" + name + "=" + QuoteForShell(value) + " ";
  };
  const rendezvous::JobRules& rules = rdzv.rules;
  add("nnodes", (rules.elastic() ? std::to_string(rules.min_nodes) + ":" : "") +
                    std::to_string(rules.max_nodes));
  const bool fixed = options.backend->fixed;
  if (fixed || rdzv.node_rank) add("node_rank", std::to_string(rdzv.node_rank.value_or(0)));
  if (fixed) {
    add("master_addr", rdzv.endpoint.host);
    add("master_port", std::to_string(rdzv.endpoint.port));
  } else {
    add("rdzv_backend", std::string(options.backend->name));
    add("rdzv_endpoint",
        rdzv.hosts.empty() ? rendezvous::ToString(rdzv.endpoint) : options.rdzv_endpoint);
  }
  if (rules.spares > 0) add("spares", std::to_string(rules.spares));
  if (rdzv.run_id != "none") add("rdzv_id", rdzv.run_id);
  std::string conf;
  for (const auto& [key, value] : options.rdzv_conf) {
    conf += (conf.empty() ? "" : ",") + key + "=" + value;
  }
  add("rdzv_conf", conf);
  add("local_addr", rdzv.local_addr);
  return text;
}

}  // namespace ddprun::launcher
