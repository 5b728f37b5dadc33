#include "trainer/comm/store_start.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <sstream>

#include "base/failure.h"
#include "base/sealed_memory.h"
#include "base/text.h"
#include "trainer/comm/bootstrap.h"
#include "trainer/comm/connect_nodes.h"
#include "trainer/comm/host_process_group_core.h"
#include "trainer/comm/peer_watch.h"

namespace ddprun::trainer {

namespace {

// Address space for each rank of a group: 600 groups of 8 ranks fit in a process.
constexpr size_t kHeapBytesOfGroup = size_t{8} << 30;

// The message of a rank to the others.
struct Place {
  std::string host;
  pid_t pid = 0;
  int fd = -1;
  int next_group = 0;  // the least group number that the process may use
};

// The objects that the groups of this process share.
struct ProcessState {
  std::atomic<int> next_group = 0;  // group 0 is that of the whole job: see NextGroup()
  const pid_t owner = ::getpid();
  const std::shared_ptr<FlightRecorder> recorder;  // nullptr: the launcher has none

  static ProcessState& Get() {
    static ProcessState state;
    return state;
  }

 private:
  ProcessState() : recorder(Attach()) {}
  static std::shared_ptr<FlightRecorder> Attach() {
    const Environment environment = Environment::OfProcess();
    const Result<RankInfo> info = ReadRankInfo(environment);
    return info ? AttachFlightRecorder(environment, *info) : nullptr;
  }
};

// Returns a text that is equal for processes which may open each other's descriptors in /proc.
std::string HostText() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat pids = {};
  ::stat("/proc/self/ns/pid", &pids);
  return boot + "/" + std::to_string(pids.st_ino) + "/" + std::to_string(::geteuid());
}

Error NotTogether(const StoreStart& start, const std::string& what, const std::string& hint) {
  return Error{.code = Code::kRendezvous,
               .title = "RANKS DID NOT COME",
               .where = "rank " + std::to_string(start.names[static_cast<size_t>(start.rank)]),
               .what = what,
               .hint = hint,
               .page = "ranks-did-not-come"};
}

// How the ranks of the group tell each other texts through a store of c10d. Functions throw
// Failure.
class StoreExchange {
 public:
  StoreExchange(c10d::Store& store, const StoreStart& start) : store_(store), start_(start) {
    for (int rank = 0; rank < start.size; ++rank) all_.push_back(rank);
  }

  // Sets this rank's value of `subject`, and returns the values of `ranks`.
  std::vector<std::string> Among(const std::vector<int>& ranks,
                                 const std::string& subject,
                                 const std::string& own) const {
    store_.set(KeyOf(subject, start_.rank), own);
    std::vector<std::string> keys;
    for (const int rank : ranks) keys.push_back(KeyOf(subject, rank));
    try {
      store_.wait(keys, start_.timeout);
    } catch (const std::exception&) {
      std::vector<int> missing;
      for (size_t i = 0; i < keys.size(); ++i) {
        if (!store_.check({keys[i]}))
          missing.push_back(start_.names[static_cast<size_t>(ranks[i])]);
      }
      throw Failure(NotTogether(
          start_,
          "These ranks did not come to the start of the group: " + FormatList(missing, ", "),
          "Look at the output of the missing ranks. All ranks must make the same groups in the "
          "same order."));
    }
    std::vector<std::string> values;
    for (const std::string& key : keys) values.push_back(store_.get_to_str(key));
    return values;
  }
  std::vector<std::string> AmongAll(const std::string& subject, const std::string& own) const {
    return Among(all_, subject, own);
  }
  // As a function for ConnectNodes(). This object must outlive it.
  Exchange AsFunction() const {
    return [this](const std::string& subject, const std::vector<int>& ranks,
                  const std::string& own) -> Result<std::vector<std::string>> {
      try {
        return Among(ranks, subject, own);
      } catch (const Failure& failure) {
        return failure.error();
      }
    };
  }
  // Call it when all ranks have read the values of `subject`.
  void Forget(const std::string& subject) const { store_.deleteKey(KeyOf(subject, start_.rank)); }

 private:
  std::string KeyOf(const std::string& subject, int rank) const {
    return "ddprun/" + std::to_string(start_.attempt) + "/" + subject + "/" + std::to_string(rank);
  }

  c10d::Store& store_;
  const StoreStart& start_;
  std::vector<int> all_;
};

// Returns the least number that this process may give to a new group. It is 0 only for the first
// group, if that is the group of the whole job.
int NextGroup(const StoreStart& start) {
  const Result<RankInfo> info = ReadRankInfo(Environment::OfProcess());
  const bool whole = info && info->world_size == start.size && info->rank == start.rank;
  return std::max<int>(ProcessState::Get().next_group, whole ? 0 : 1);
}

std::vector<Place> ExchangePlaces(const StoreExchange& exchange, const StoreStart& start, int fd) {
  const std::string own = HostText() + " " + std::to_string(::getpid()) + " " + std::to_string(fd) +
                          " " + std::to_string(NextGroup(start));
  std::vector<Place> places;
  for (const std::string& value : exchange.AmongAll("places", own)) {
    Place place;
    std::istringstream(value) >> place.host >> place.pid >> place.fd >> place.next_group;
    places.push_back(std::move(place));
  }
  return places;
}

// Numbers the hosts in the order of their first ranks. Returns the number of each rank's host.
std::vector<int> NumberHosts(const std::vector<Place>& places) {
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  for (const Place& place : places) {
    hosts.push_back(numbers.emplace(place.host, static_cast<int>(numbers.size())).first->second);
  }
  return hosts;
}

// Opens the memory of this host's ranks, which is that of the first of them. `own` is this rank's.
UniqueFd OpenMemory(const std::vector<Place>& places, int rank, UniqueFd own) {
  const std::string& host = places[static_cast<size_t>(rank)].host;
  const auto first = std::ranges::find(places, host, &Place::host);
  if (first == places.begin() + rank) return own;
  return ValueOrThrow(
      OpenSealedMemory("/proc/" + std::to_string(first->pid) + "/fd/" + std::to_string(first->fd),
                       kNodeMemorySeals));
}

// Gives the group a number that is new to each of its ranks, and lets the launcher's flight
// recorder show its operations. All ranks take the same number, also those without a recorder,
// because messages between hosts have it.
void Number(HostProcessGroup::Options& options, const std::vector<Place>& places) {
  ProcessState& process = ProcessState::Get();
  const int number = std::ranges::max(places, {}, &Place::next_group).next_group;
  process.next_group = number + 1;
  if (number >= kMaxGroups) return;
  options.wire.group = static_cast<uint16_t>(number);
  // A child of fork() would write to its parent's page.
  if (process.owner == ::getpid()) options.recorder = process.recorder;
}

// Connects the hosts. `hosts`: the number of each rank's host. Does nothing if there is one.
void Connect(HostProcessGroup::Options& options,
             const std::vector<int>& hosts,
             const StoreExchange& exchange) {
  const int own = hosts[static_cast<size_t>(options.rank)];
  const auto here = static_cast<int>(std::ranges::count(hosts, own));
  if (here == options.size) return;
  const Environment environment = Environment::OfProcess();
  const std::string master = environment.GetOr("MASTER_ADDR", "");
  ConnectedNodes nodes =
      ValueOrThrow(ConnectNodes(environment,
                                {.rank = options.rank,
                                 .world_size = options.size,
                                 .local_world_size = here,
                                 .node_rank = own},
                                master.empty() ? "" : AddressTowards(master), exchange.AsFunction(),
                                SpinTime(here), options.timeout));
  options.wire = std::move(nodes.wire);
  options.node_of_rank = std::move(nodes.node_of_rank);
}

}  // namespace

c10::intrusive_ptr<HostProcessGroup> StartFromStore(c10d::Store& store, const StoreStart& start) {
  const StoreExchange exchange(store, start);
  UniqueFd own = ValueOrThrow(SharedRegion::CreateFile());
  const std::vector<Place> places = ExchangePlaces(exchange, start, own.get());
  c10::intrusive_ptr<HostProcessGroup> group;
  std::string failure;
  UniqueFd memory;  // open until all ranks have opened it
  try {
    memory = OpenMemory(places, start.rank, std::move(own));
    HostProcessGroup::Options options{.rank = start.rank,
                                      .size = start.size,
                                      .timeout = start.timeout,
                                      .names = start.names,
                                      .heap_bytes = kHeapBytesOfGroup};
    Connect(options, NumberHosts(places), exchange);
    Number(options, places);
    group = HostProcessGroup::Create(memory, options);
  } catch (const Failure& error) {
    failure = error.error().what + "\n" + error.error().hint;
  }
  const std::vector<std::string> results = exchange.AmongAll("joined", failure + ".");
  for (size_t rank = 0; rank < results.size(); ++rank) {
    if (results[rank] == ".") continue;
    throw Failure(NotTogether(
        start,
        "Rank " + std::to_string(start.names[rank]) + " could not join the group: " + results[rank],
        ""));
  }
  exchange.Forget("places");
  std::vector<pid_t> pids;
  for (const Place& place : places) pids.push_back(place.pid);
  PeerWatch::Watch(*group, pids);
  return group;
}

}  // namespace ddprun::trainer
