#include "trainer/comm/store_start.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/failure.h"
#include "base/sealed_memory.h"
#include "base/text.h"
#include "trainer/comm/host_process_group_core.h"
#include "trainer/comm/peer_watch.h"

namespace ddprun::trainer {

namespace {

// Address space for each rank of a group: 600 groups of 8 ranks fit in a process.
constexpr size_t kHeapBytesOfGroup = size_t{8} << 30;

// What a rank tells the others.
struct Place {
  std::string host;
  pid_t pid = 0;
  int fd = -1;
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

std::string KeyOf(const StoreStart& start, const std::string& meeting, int rank) {
  return "ddprun/" + std::to_string(start.attempt) + "/" + meeting + "/" + std::to_string(rank);
}

// Sets this rank's value of `meeting`, and returns the values of all ranks.
std::vector<std::string> Exchange(c10d::Store& store,
                                  const StoreStart& start,
                                  const std::string& meeting,
                                  const std::string& own) {
  store.set(KeyOf(start, meeting, start.rank), own);
  std::vector<std::string> keys;
  for (int rank = 0; rank < start.size; ++rank) {
    keys.push_back(KeyOf(start, meeting, rank));
  }
  try {
    store.wait(keys, start.timeout);
  } catch (const std::exception&) {
    std::vector<int> missing;
    for (size_t rank = 0; rank < keys.size(); ++rank) {
      if (!store.check({keys[rank]})) missing.push_back(start.names[rank]);
    }
    throw Failure(NotTogether(
        start, "These ranks did not come to the start of the group: " + FormatList(missing, ", "),
        "Look at the output of the missing ranks. All ranks must make the same groups in the same "
        "order."));
  }
  std::vector<std::string> values;
  for (const std::string& key : keys) values.push_back(store.get_to_str(key));
  return values;
}

std::vector<Place> ExchangePlaces(c10d::Store& store, const StoreStart& start, int fd) {
  const std::string own = HostText() + " " + std::to_string(::getpid()) + " " + std::to_string(fd);
  std::vector<Place> places;
  for (const std::string& value : Exchange(store, start, "places", own)) {
    Place place;
    std::istringstream(value) >> place.host >> place.pid >> place.fd;
    places.push_back(std::move(place));
  }
  return places;
}

UniqueFd OpenMemory(const StoreStart& start, const std::vector<Place>& places, UniqueFd own) {
  for (size_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank].host == places[0].host) continue;
    throw Failure(NotTogether(start,
                              "Rank " + std::to_string(start.names[rank]) +
                                  " is on another host, in another container or of another user "
                                  "than rank " +
                                  std::to_string(start.names[0]) + ".",
                              "This backend works on one host. Use gloo for several."));
  }
  if (start.rank == 0) return own;
  return ValueOrThrow(OpenSealedMemory(
      "/proc/" + std::to_string(places[0].pid) + "/fd/" + std::to_string(places[0].fd),
      kNodeMemorySeals));
}

}  // namespace

c10::intrusive_ptr<HostProcessGroup> StartFromStore(c10d::Store& store, const StoreStart& start) {
  UniqueFd own = ValueOrThrow(SharedRegion::CreateFile());
  const std::vector<Place> places = ExchangePlaces(store, start, own.get());
  c10::intrusive_ptr<HostProcessGroup> group;
  std::string failure;
  UniqueFd memory;  // open until all ranks have opened it
  try {
    memory = OpenMemory(start, places, std::move(own));
    group = HostProcessGroup::Create(memory, {.rank = start.rank,
                                              .size = start.size,
                                              .timeout = start.timeout,
                                              .names = start.names,
                                              .heap_bytes = kHeapBytesOfGroup});
  } catch (const Failure& error) {
    failure = error.error().what + "\n" + error.error().hint;
  }
  const std::vector<std::string> results = Exchange(store, start, "joined", failure + ".");
  for (size_t rank = 0; rank < results.size(); ++rank) {
    if (results[rank] == ".") continue;
    throw Failure(NotTogether(
        start,
        "Rank " + std::to_string(start.names[rank]) + " could not join the group: " + results[rank],
        ""));
  }
  store.deleteKey(KeyOf(start, "places", start.rank));  // all ranks have read it
  std::vector<pid_t> pids;
  for (const Place& place : places) pids.push_back(place.pid);
  PeerWatch::Watch(*group, pids);
  return group;
}

}  // namespace ddprun::trainer
