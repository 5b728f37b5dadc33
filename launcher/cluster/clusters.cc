#include <array>

#include "launcher/cluster/cluster.h"

namespace ddprun::launcher {

std::span<const Cluster* const> Clusters() {
  static constexpr std::array<const Cluster*, 4> kAll = {&kHostfile, &kSlurm, &kMpirun,
                                                         &kKubernetes};
  return kAll;
}

uint16_t PortOf(std::string_view name) {
  constexpr uint32_t kFirstPort = 20'000;
  constexpr uint32_t kPorts = 12'000;
  uint32_t hash = 2166136261;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return static_cast<uint16_t>(kFirstPort + hash % kPorts);
}

std::vector<uint16_t> PortsAfter(std::string_view name) {
  constexpr int kOtherPorts = 8;
  std::vector<uint16_t> ports;
  for (int i = 1; i <= kOtherPorts; ++i) {
    ports.push_back(PortOf(std::string(name) + "." + std::to_string(i)));
  }
  return ports;
}

}  // namespace ddprun::launcher
