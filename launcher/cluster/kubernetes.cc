// Indexed jobs of Kubernetes with a headless service: pod i of the job "train" has the host name
// train-i, and the others reach it by this name in the domain of the service.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/text.h"
#include "launcher/cluster/cluster.h"

namespace ddprun::launcher {

namespace {

constexpr int kMaxPods = 1 << 16;

// The number of pods stands in no variable, so the job has as many as --nnodes says.
Result<std::optional<ClusterPlace>> FindKubernetesPlace(const Environment& env) {
  if (!env.Get("JOB_COMPLETION_INDEX")) return std::optional<ClusterPlace>();
  DDPRUN_ASSIGN(const int64_t index, env.GetInt("JOB_COMPLETION_INDEX", 0, 0, kMaxPods));
  const std::string own = env.GetOr("HOSTNAME", rendezvous::HostName());
  const std::string suffix = "-" + std::to_string(index);
  const size_t dot = std::min(own.find('.'), own.size());
  const std::string first = own.substr(0, dot);
  ClusterPlace place;
  place.started_by = "the Kubernetes job";
  place.agents = kAsManyAsGiven;
  place.agent = static_cast<int>(index);
  place.run_id = "kubernetes";
  place.no_host_hint =
      "Give the pods a headless service as their subdomain, or set MASTER_ADDR to "
      "the first pod's name.";
  if (first.ends_with(suffix)) {
    const std::string job = first.substr(0, first.size() - suffix.size());
    place.endpoint = {job + "-0" + own.substr(dot), PortOf(job)};
    place.run_id += "." + MakePrintable(job);
  }
  return std::optional(std::move(place));
}

}  // namespace

const Cluster kKubernetes = {"kubernetes", FindKubernetesPlace};

}  // namespace ddprun::launcher
