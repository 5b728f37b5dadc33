#include <dlfcn.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <thread>

#include <asio/ip/address_v4.hpp>

#include "base/env.h"
#include "base/text.h"
#include "launcher/doctor/checks.h"
#include "rendezvous/net/address.h"
#include "rendezvous/net/listener.h"

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kNameServerPatience{3};
// Default ports of torchrun's static and c10d backends.
constexpr uint16_t kDefaultPorts[] = {29500, 29400};

std::string FirstWord(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

std::vector<NetworkInterface> ReadInterfaces() {
  std::vector<NetworkInterface> interfaces;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/sys/class/net", ignored)) {
    const std::string name = entry.path().filename();
    if (name == "lo" || FirstWord(entry.path() / "operstate") != "up") continue;
    const int64_t speed = ParseInt(FirstWord(entry.path() / "speed")).value_or(0);
    interfaces.push_back({.name = name, .megabits = std::max<int64_t>(0, speed)});
  }
  for (const auto& entry : fs::directory_iterator("/sys/class/infiniband", ignored)) {
    interfaces.push_back({.name = entry.path().filename(), .infiniband = true});
  }
  return interfaces;
}

void QueryUcx(NetworkFacts& facts) {
  // Never closed, because UCX leaves hooks behind.
  void* const library = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    facts.ucx_error = reason ? reason : "";
    return;
  }
  const auto version =
      reinterpret_cast<const char* (*)()>(::dlsym(library, "ucp_get_version_string"));
  facts.ucx = version != nullptr ? version() : "of an unknown version";
}

bool CanListen(uint16_t port) {
  const asio::ip::address loopback = asio::ip::address_v4::loopback();
  return rendezvous::ListenOn({&loopback, 1}, port).has_value();
}

Finding CheckUcx(const NetworkFacts& facts, const IntendedUse& use, const ProcessLimit& locked) {
  Finding finding{.name = "UCX", .facts = {{"version", facts.ucx.value_or("")}}};
  std::vector<std::string> devices;
  bool infiniband = false;
  nlohmann::json list = nlohmann::json::array();
  for (const NetworkInterface& interface : facts.interfaces) {
    const std::string kind = interface.infiniband ? "RDMA" : "TCP";
    const int64_t megabits = interface.megabits;
    devices.push_back(interface.name + " (" + kind +
                      (megabits > 0 ? ", " + std::to_string(megabits) + " Mbit/s)" : ")"));
    list.push_back({{"name", interface.name}, {"kind", kind}, {"megabits", megabits}});
    infiniband = infiniband || interface.infiniband;
  }
  finding.facts["devices"] = std::move(list);
  const std::string way = devices.empty() ? "loopback alone" : FormatList(devices);
  finding.what = facts.ucx ? *facts.ucx + ", over " + way : "not here, nor needed over " + way;
  if (infiniband && !facts.ucx) {
    finding.verdict = MissingIf(use.nodes);
    finding.what = "cannot be loaded, and uses " + way + ": " + facts.ucx_error;
    finding.remedy = "apt-get install libucx0";
  } else if (devices.empty()) {
    finding.verdict = MissingIf(use.nodes);
    finding.remedy = "No network interface is up: other nodes cannot be reached.";
  } else if (infiniband && locked.soft >= 0) {
    finding.verdict = Verdict::kNote;
    finding.what +=
        "; RDMA needs locked memory, of which a process may have " + FormatBytes(locked.soft);
    finding.remedy = "ulimit -l unlimited (docker run --ulimit memlock=-1)";
  }
  return finding;
}

Finding CheckHostName(const NetworkFacts& facts, const IntendedUse& use) {
  Finding finding{.name = "host name",
                  .what = facts.host + " is " + FormatList(facts.addresses),
                  .facts = {{"host", facts.host}, {"addresses", facts.addresses}}};
  if (!facts.addresses.empty()) return finding;
  finding.verdict = MissingIf(use.nodes);
  finding.what = facts.host +
                 " has no address: ddprun needs none on one node, but PyTorch's own "
                 "programs ask for it and wait";
  finding.remedy = "Add it to /etc/hosts: 127.0.1.1 " + facts.host;
  return finding;
}

Finding CheckPorts(const NetworkFacts& facts) {
  Finding finding{.name = "ports",
                  .what = "29500 and 29400 are free on this machine",
                  .facts = {{"busy", facts.busy_ports}}};
  if (!facts.any_port) {
    finding.verdict = Verdict::kMissing;
    finding.what = "none on 127.0.0.1 can be listened at, which ranks meet by";
    finding.remedy = "ip link set lo up; in a sandbox, allow loopback.";
  } else if (!facts.busy_ports.empty()) {
    finding.verdict = Verdict::kNote;
    finding.what = FormatList(facts.busy_ports) + " taken, maybe by another job";
    finding.remedy =
        "With several nodes give --master_port or --rdzv_endpoint another port; with "
        "one node ddprun takes a free one by itself.";
  }
  return finding;
}

}  // namespace

std::vector<std::string> AddressesOf(const std::string& host) {
  std::vector<asio::ip::address> found = rendezvous::ResolveLocally(host);
  if (found.empty()) {
    auto promise = std::make_shared<std::promise<std::vector<asio::ip::address>>>();
    auto answer = promise->get_future();
    std::thread([promise, host] {
      auto addresses = rendezvous::ResolveByNameServer(host);
      promise->set_value(addresses ? *addresses : std::vector<asio::ip::address>());
    }).detach();
    if (answer.wait_for(kNameServerPatience) == std::future_status::ready) found = answer.get();
  }
  std::vector<std::string> texts;
  for (const asio::ip::address& address : found) texts.push_back(address.to_string());
  return texts;
}

NetworkFacts ReadNetwork() {
  NetworkFacts facts{.host = rendezvous::HostName()};
  facts.addresses = AddressesOf(facts.host);
  facts.interfaces = ReadInterfaces();
  QueryUcx(facts);
  facts.any_port = CanListen(0);
  for (const uint16_t port : kDefaultPorts) {
    if (!CanListen(port)) facts.busy_ports.push_back(port);
  }
  return facts;
}

std::vector<Finding> CheckNetwork(const NetworkFacts& facts,
                                  const IntendedUse& use,
                                  const ProcessLimit& locked_memory) {
  return {CheckUcx(facts, use, locked_memory), CheckHostName(facts, use), CheckPorts(facts)};
}

}  // namespace ddprun::launcher
