#include "launcher/doctor/test_nodes.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>

#include "base/slurm_step.h"
#include "base/text.h"
#include "base/untrusted_json.h"
#include "launcher/cli/network_interface.h"
#include "launcher/doctor/checks.h"
#include "launcher/doctor/fill_in_facts.h"
#include "launcher/doctor/link_test.h"
#include "launcher/doctor/node_pairs.h"
#include "rendezvous/store/tcp_store.h"
#include "rendezvous/store_host.h"

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using rendezvous::Deadline;
using rendezvous::DeadlineAfter;
using rendezvous::StoreServer;
using rendezvous::TcpStore;
using std::chrono::milliseconds;

constexpr milliseconds kMeetTimeout{60'000};
constexpr milliseconds kAnswerTimeout{5'000};
constexpr milliseconds kLinkTimeout{12'000};   // longer than TestLink() takes
constexpr milliseconds kRoundTimeout{30'000};  // both directions, and some time
constexpr milliseconds kFileTimeout{3'000};    // for a network file system to show a new file
constexpr milliseconds kPause{100};

// The first node's store, on a thread of its own.
class StoreThread {
 public:
  static Result<std::unique_ptr<StoreThread>> Start(const std::vector<uint16_t>& ports) {
    auto store = std::unique_ptr<StoreThread>(new StoreThread);
    Error problem;
    for (const uint16_t port : ports) {
      auto server = rendezvous::ListenOnOwn(store->io_, {}, port);
      if (server) {
        store->server_ = *std::move(server);
        store->thread_ = std::thread([io = &store->io_] { io->run(); });
        return store;
      }
      problem = std::move(server).error();
      if (problem.code != Code::kAddressInUse) break;
    }
    return problem;
  }
  ~StoreThread() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }
  StoreThread(const StoreThread&) = delete;
  StoreThread& operator=(const StoreThread&) = delete;

  uint16_t port() const { return server_->port(); }

 private:
  StoreThread() = default;

  asio::io_context io_;
  std::unique_ptr<StoreServer> server_;
  std::thread thread_;
};

std::string Key(const char* kind, int number) {
  return "doctor/" + std::string(kind) + "/" + std::to_string(number);
}

std::vector<uint16_t> PortsOf(const rendezvous::RendezvousOptions& rdzv) {
  std::vector<uint16_t> ports = {rdzv.endpoint.port};
  ports.insert(ports.end(), rdzv.other_ports.begin(), rdzv.other_ports.end());
  return ports;
}

// Tries the ports in turn until one has the store of this run.
Result<std::unique_ptr<TcpStore>> Reach(const rendezvous::RendezvousOptions& rdzv,
                                        Deadline deadline) {
  Error problem;
  while (true) {
    for (const uint16_t port : PortsOf(rdzv)) {
      auto store = TcpStore::Connect({rdzv.endpoint.host, port}, DeadlineAfter(kAnswerTimeout / 2));
      if (!store) {
        problem = std::move(store).error();
        continue;
      }
      const auto run = (*store)->Get("doctor/run", DeadlineAfter(kAnswerTimeout / 2));
      if (run && *run == rdzv.run_id) return store;
      problem = {.code = Code::kRendezvous,
                 .title = "ANOTHER JOB'S STORE",
                 .where = ToString(rendezvous::HostPort{rdzv.endpoint.host, port}),
                 .what = "The store there is not of ddprun doctor --nodes with --rdzv_id=" +
                         rdzv.run_id + ".",
                 .hint = "Give another port, and the same --rdzv_id on all nodes.",
                 .page = "no-store"};
    }
    if (std::chrono::steady_clock::now() > deadline) {
      return std::move(problem).While("meeting the other nodes");
    }
    std::this_thread::sleep_for(kPause);
  }
}

// A file in the working folder of the first node. Other nodes look for its text at the same path.
class SharedFile {
 public:
  explicit SharedFile(const std::string& folder)
      : path_(folder + "/.ddprun-doctor-" + std::to_string(::getpid()) + "-" +
              std::to_string(std::chrono::system_clock::now().time_since_epoch().count())) {
    std::ofstream file(path_);
    file << path_ << std::flush;
    if (!file) problem_ = ErrnoText(errno);
  }
  ~SharedFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& problem() const { return problem_; }

 private:
  std::string path_;
  std::string problem_;
};

bool SeesFile(const std::string& path) {
  const Deadline deadline = DeadlineAfter(kFileTimeout);
  while (true) {
    std::ifstream file(path);
    std::string text;
    if (std::getline(file, text) && text == path) return true;
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(kPause);
  }
}

// Returns the names of the step's nodes; outside of SLURM, or if they do not fit, numbers.
std::vector<std::string> ExpectedNames(const Environment& env, int nodes) {
  if (IsSlurmStep(env)) {
    const auto step = ReadSlurmStep(env, rendezvous::kMaxNodes);
    if (step && static_cast<int>(step->nodes.size()) == nodes) {
      std::vector<std::string> names;
      for (const std::string& name : step->nodes) names.push_back("host " + name);
      return names;
    }
  }
  std::vector<std::string> names;
  for (int node = 0; node < nodes; ++node) {
    names.push_back("node " + std::to_string(node) + " of " + std::to_string(nodes));
  }
  return names;
}

// Returns when all nodes have ended the round; an error if one of them does not.
Status EndRound(TcpStore& store, int round, int nodes) {
  const std::string key = Key("round", round);
  DDPRUN_ASSIGN(const int64_t arrived, store.Add(key, 1, DeadlineAfter(kAnswerTimeout)));
  if (arrived == nodes) return store.Set(key + "/end", "", DeadlineAfter(kAnswerTimeout));
  auto end = store.Get(key + "/end", DeadlineAfter(kRoundTimeout));
  return end ? Status() : std::move(end).error();
}

// Tests this node's links, one pair after the other. Stops early if a node is lost.
std::vector<LinkFacts> TestPairs(TcpStore& store, const std::vector<NodeFacts>& nodes, int self) {
  std::vector<LinkFacts> links;
  const int count = static_cast<int>(nodes.size());
  int round = 0;
  for (const int partner : PartnersOf(self, count)) {
    if (partner >= 0) {
      const std::string turn = Key("turn", round) + "/" + std::to_string(std::min(self, partner));
      if (self > partner) std::ignore = store.Get(turn, DeadlineAfter(kLinkTimeout));
      LinkFacts link = TestLink(nodes[static_cast<size_t>(partner)]);
      link.from = self;
      link.to = partner;
      links.push_back(std::move(link));
      if (self < partner) std::ignore = store.Set(turn, "", DeadlineAfter(kAnswerTimeout)).ok();
    }
    if (!EndRound(store, round++, count).ok()) break;
  }
  return links;
}

// The values that the first node publishes, and that each node reports.
struct GatheredNodes {
  std::vector<NodeFacts> nodes;
  std::string file;  // to look for; "" means none
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(GatheredNodes, nodes, file)
};
struct NodeResult {
  std::vector<LinkFacts> links;
  bool sees_file = false;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(NodeResult, links, sees_file)
};

// Reads what another node, or a stranger who reaches the store, has written.
template <typename Value>
Result<Value> Received(const std::string& text) {
  const json value = ParseUntrustedJson(text);
  try {
    return value.get<Value>();
  } catch (const json::exception&) {
    return Error{.code = Code::kRendezvous,
                 .title = "NOT UNDERSTOOD",
                 .where = "ddprun doctor --nodes",
                 .what = "The store has a value that this version of ddprun does not write.",
                 .hint = "Start the same ddprun on all nodes, and let nobody else reach the port.",
                 .page = "no-rendezvous"};
  }
}

// Waits for the nodes, and publishes those that came and the file to look for. Writes the file only
// then: a signal that ends this process in the long wait leaves none behind.
Result<NodesTest> Gather(TcpStore& store,
                         const std::vector<std::string>& names,
                         const std::string& folder,
                         std::optional<SharedFile>& file,
                         Deadline deadline) {
  NodesTest test;
  for (size_t i = 0; i < names.size(); ++i) {
    const Deadline until = std::max(deadline, DeadlineAfter(kPause));
    const auto facts = store.Get(Key("node", static_cast<int>(i)), until);
    if (facts) {
      DDPRUN_ASSIGN(NodeFacts node, Received<NodeFacts>(*facts));
      test.nodes.push_back(std::move(node));
    } else if (facts.error().code == Code::kDeadlineExceeded) {
      test.missing.push_back(names[i]);
    } else {
      return facts.error();
    }
  }
  file.emplace(folder);
  test.file_problem = file->problem();
  const json all = GatheredNodes{test.nodes, test.file_problem.empty() ? file->path() : ""};
  DDPRUN_TRY(store.Set("doctor/all", all.dump(), DeadlineAfter(kAnswerTimeout)));
  return test;
}

// Reads the nodes' results. Nodes that do not report in time are silent.
Status ReadResults(TcpStore& store, NodesTest& test) {
  const Deadline deadline = DeadlineAfter(kRoundTimeout);
  for (size_t i = 0; i < test.nodes.size(); ++i) {
    const auto text =
        store.Get(Key("result", static_cast<int>(i)), std::max(deadline, DeadlineAfter(kPause)));
    if (!text) {
      test.silent.push_back(test.nodes[i].host);
      continue;
    }
    DDPRUN_ASSIGN(const NodeResult result, Received<NodeResult>(*text));
    std::ranges::copy_if(result.links, std::back_inserter(test.links), [&](const LinkFacts& link) {
      const auto is_node = [&](int node) { return node >= 0 && node < std::ssize(test.nodes); };
      return is_node(link.from) && is_node(link.to);
    });
    if (!result.sees_file) test.without_file.push_back(static_cast<int>(i));
  }
  return {};
}

void WaitForOthers(TcpStore& store, int64_t others) {
  const Deadline deadline = DeadlineAfter(kAnswerTimeout);
  while (std::chrono::steady_clock::now() < deadline) {
    const auto left = store.Add("doctor/left", 0, deadline);
    if (!left || *left >= others) return;
    std::this_thread::sleep_for(kPause);
  }
}

struct Place {
  int nodes = 1;
  std::optional<int> node = {};  // nullopt means that the store counts
  bool first = false;
};

Place PlaceOf(const Options& options) {
  const rendezvous::RendezvousOptions& rdzv = options.rdzv;
  Place place{.nodes = rdzv.rules.max_nodes, .node = rdzv.node_rank};
  if (options.host_share && options.host_share->workers > 1) {
    place.nodes = options.host_share->hosts;
    place.node = options.host_share->host;
  }
  if (!place.node && options.backend->fixed) place.node = 0;
  const auto is_own = [](const std::string& text) {
    return rendezvous::IsOwnAddress(asio::ip::make_address(text));
  };
  const auto addresses = place.node ? std::vector<std::string>() : AddressesOf(rdzv.endpoint.host);
  place.first = place.node ? *place.node == 0 : std::ranges::any_of(addresses, is_own);
  return place;
}

// Tests the links of `node`, looks for the first node's file, and publishes both results.
Status TakePart(TcpStore& store,
                const std::vector<NodeFacts>& nodes,
                int node,
                const std::string& file) {
  const auto self = std::ranges::find(nodes, node, &NodeFacts::node);
  if (self == nodes.end()) {
    return Error{.code = Code::kRendezvous,
                 .title = "TOO LATE FOR THE TEST",
                 .where = rendezvous::HostName(),
                 .what = "This node came after the first node had waited for a minute.",
                 .hint = "Start all nodes at the same time.",
                 .page = "no-rendezvous"};
  }
  const int at = static_cast<int>(self - nodes.begin());
  const bool sees = file.empty() || SeesFile(file);
  const json result = NodeResult{TestPairs(store, nodes, at), sees};
  return store.Set(Key("result", at), result.dump(), DeadlineAfter(kAnswerTimeout));
}

}  // namespace

Result<NodesOutcome> TestNodes(const Options& options, const Environment& env, NodeFacts self) {
  self.host = rendezvous::HostName();
  std::vector<std::string> used;
  if (const std::string& wanted = options.network_interface; !wanted.empty()) {
    DDPRUN_ASSIGN(const rendezvous::OwnAddress own,
                  FindInterface(wanted, self.host, rendezvous::ReadOwnAddresses()));
    self.interface = own.interface;
    used = {own.address.to_string()};
  }
  Place place = PlaceOf(options);
  const Deadline deadline = DeadlineAfter(kMeetTimeout);
  rendezvous::RendezvousOptions rdzv = options.rdzv;
  std::unique_ptr<StoreThread> host;
  if (place.first) {
    auto started = StoreThread::Start(PortsOf(rdzv));
    const bool maybe_another = !place.node;  // of the same host, which came first
    if (!started && (started.error().code != Code::kAddressInUse || !maybe_another)) {
      return std::move(started).error();
    }
    place.first = started.has_value();
    if (started) host = *std::move(started);
  }
  std::unique_ptr<TcpStore> store;
  if (place.first) {
    DDPRUN_ASSIGN(store, TcpStore::Connect({"127.0.0.1", host->port()}, deadline));
    DDPRUN_TRY(store->Set("doctor/run", rdzv.run_id, deadline));
    place.node = 0;
  } else {
    DDPRUN_ASSIGN(store, Reach(rdzv, deadline));
  }
  if (!place.node) {
    DDPRUN_ASSIGN(const int64_t count, store->Add("doctor/count", 1, deadline));
    place.node = static_cast<int>(count);
  }
  DDPRUN_ASSIGN(const auto server, LinkServer::Start());
  self.node = *place.node;
  self.port = server->port();
  if (used.empty() && !place.first) used = {store->LocalAddress()};
  FillInNetwork(used.empty() ? AddressesOf(rdzv.endpoint.host) : used, self);
  FillInFolder(self);
  DDPRUN_TRY(store->Set(Key("node", self.node), json(self).dump(), DeadlineAfter(kAnswerTimeout)));
  if (!place.first) {
    const Deadline gathered = deadline + kRoundTimeout;
    DDPRUN_ASSIGN(const std::string text, store->Get("doctor/all", gathered));
    DDPRUN_ASSIGN(const GatheredNodes all, Received<GatheredNodes>(text));
    DDPRUN_TRY(TakePart(*store, all.nodes, self.node, all.file));
    DDPRUN_ASSIGN(std::ignore, store->Get("doctor/end", DeadlineAfter(2 * kRoundTimeout)));
    DDPRUN_ASSIGN(std::ignore, store->Add("doctor/left", 1, DeadlineAfter(kAnswerTimeout)));
    return NodesOutcome{};
  }
  std::optional<SharedFile> file;  // to the end of the test
  DDPRUN_ASSIGN(NodesTest test,
                Gather(*store, ExpectedNames(env, place.nodes), self.folder, file, deadline));
  DDPRUN_TRY(TakePart(*store, test.nodes, self.node, ""));
  DDPRUN_TRY(ReadResults(*store, test));
  DDPRUN_TRY(store->Set("doctor/end", "", DeadlineAfter(kAnswerTimeout)));
  WaitForOthers(*store, static_cast<int64_t>(test.nodes.size() - 1 - test.silent.size()));
  return NodesOutcome{.first = true, .test = std::move(test)};
}

}  // namespace ddprun::launcher
