#include "launcher/doctor/fill_in_facts.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "rendezvous/net/address.h"

namespace ddprun::launcher {

namespace fs = std::filesystem;

void FillInNetwork(const std::vector<std::string>& used, NodeFacts& self) {
  std::vector<rendezvous::OwnAddress> own = rendezvous::ReadOwnAddresses();
  const auto is_used = [&used](const rendezvous::OwnAddress& each) {
    return std::ranges::find(used, each.address.to_string()) != used.end();
  };
  std::erase_if(own, [&](const rendezvous::OwnAddress& each) {
    if (!self.interface.empty() && is_used(each)) return false;
    return !each.up || each.address.is_loopback() || rendezvous::IsLinkLocal(each.address);
  });
  std::stable_partition(own.begin(), own.end(), is_used);
  for (const auto& each : own) self.addresses.push_back(each.address.to_string());
  if (own.empty()) return;
  std::ifstream("/sys/class/net/" + own.front().interface + "/mtu") >> self.mtu;
}

void FillInFolder(NodeFacts& self) {
  std::error_code ignored;
  const fs::path folder = fs::current_path(ignored);
  self.folder = folder.string();
  self.user = ::geteuid();
  const fs::space_info space = fs::space(folder, ignored);
  self.free_bytes = ignored ? 0 : static_cast<int64_t>(space.available);
}

}  // namespace ddprun::launcher
