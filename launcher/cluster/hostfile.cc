// --hostfile: the process that starts the agents gives each of them its place.
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>

#include "launcher/cluster/cluster.h"

namespace ddprun::launcher {

namespace {

Result<std::optional<ClusterPlace>> FindHostfilePlace(const Environment& env) {
  if (!IsAgentOfHostfile(env)) return std::optional<ClusterPlace>();
  ClusterPlace place;
  place.started_by = "--hostfile";
  place.nnodes_hint = "Leave --nnodes out, or name as many hosts in the file.";
  std::istringstream words(env.GetOr(kHostPlaceVariable, ""));
  words >> place.agent >> place.agents >> place.endpoint.host >> place.run_id;
  if (words.fail() || place.agent < 0 || place.agent >= place.agents) {
    return Error{.code = Code::kUsage,
                 .title = "BAD PLACE",
                 .where = kHostPlaceVariable,
                 .what = std::string(kHostPlaceVariable) + " is \"" +
                         env.GetOr(kHostPlaceVariable, "") +
                         "\"; expected the four words that ddprun --hostfile sets.",
                 .hint = std::string("unset ") + kHostPlaceVariable,
                 .page = "no-agent-on-host"};
  }
  place.endpoint.port = PortOf(place.run_id);
  place.other_ports = PortsAfter(place.run_id);
  return std::optional(std::move(place));
}

}  // namespace

bool IsAgentOfHostfile(const Environment& env) {
  return env.Get(kHostPlaceVariable) && !env.Get("DDPRUN_JOB_ID");
}

const Cluster kHostfile = {"hostfile", FindHostfilePlace, /*gives_each_its_place=*/true};

}  // namespace ddprun::launcher
