#include "rendezvous/store/connection_room.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <string>

namespace ddprun::rendezvous {

namespace {

// The reserve is for an agent, which starts workers beside the store.
constexpr size_t kMostReservedDescriptors = 256;

// The soft limit is that of the connections: ddprun has raised it to the hard one.
std::string LimitText() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return "This process may open " + std::to_string(limit.rlim_cur) + " files (ulimit -n), and " +
         std::to_string(limit.rlim_max) + " is the hard limit.";
}

}  // namespace

size_t ConnectionsThatFit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<size_t>::max();
  const auto all = static_cast<size_t>(limit.rlim_cur);
  return std::max<size_t>(1, all - std::min(kMostReservedDescriptors, all / 4));
}

Error NoRoomForMore(uint16_t port, size_t connections, int problem) {
  return {.title = "NO ROOM FOR MORE CONNECTIONS",
          .where = "store at port " + std::to_string(port),
          .what = "The store has " + std::to_string(connections) +
                  " connections and can take no more" +
                  (problem == 0 ? "" : ": " + ErrnoText(problem)) + ".\n" + LimitText() +
                  "\nOthers wait until somebody leaves.",
          .hint =
              "Raise the hard limit of open files before the start: ulimit -Hn 65536 as root, or\n"
              "in /etc/security/limits.conf.",
          .page = "too-many-connections"};
}

}  // namespace ddprun::rendezvous
