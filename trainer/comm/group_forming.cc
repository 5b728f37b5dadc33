#include "trainer/comm/group_forming.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/failure.h"

namespace ddprun::trainer {

namespace {

// A rank's message to the other ranks that make a new group. The first rank of the new group on
// each node makes the memory of this node.
struct Invitation {
  int64_t pid = 0;  // the process whose /proc/<pid>/fd/<fd> is the memory
  int64_t fd = -1;
  int64_t next_group = 0;
};

Error BadRanks(int rank, const std::string& what) {
  return Error{.title = "BAD GROUP",
               .where = "rank " + std::to_string(rank),
               .what = what,
               .hint =
                   "Every rank of the new group must give the same list, and its own rank must be "
                   "in the list.",
               .page = "bad-group"};
}

Result<UniqueFd> Open(const Invitation& invitation) {
  const std::string path =
      "/proc/" + std::to_string(invitation.pid) + "/fd/" + std::to_string(invitation.fd);
  UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.valid()) return file;
  return SystemError("opening the memory of a new group, " + path, errno);
}

// Checks that this rank is in its list, and that all ranks of the list gave an equal one. `lists`
// holds a list of n entries from each of n ranks, filled up with -1.
Status CheckLists(int self,
                  const std::vector<int>& ranks,
                  const std::vector<int32_t>& list,
                  const std::vector<int32_t>& lists) {
  if (ranks.empty()) return {};
  if (std::find(ranks.begin(), ranks.end(), self) == ranks.end()) {
    return BadRanks(self, "This rank is not in its own list of the new group.");
  }
  for (const int rank : ranks) {
    if (rank < 0 || static_cast<size_t>(rank) >= list.size()) {
      return BadRanks(self, "There is no rank " + std::to_string(rank) + ".");
    }
    if (std::count(ranks.begin(), ranks.end(), rank) > 1) {
      return BadRanks(self, "Rank " + std::to_string(rank) + " is in the list twice.");
    }
    if (!std::equal(list.begin(), list.end(), &lists[static_cast<size_t>(rank) * list.size()])) {
      return BadRanks(self, "Rank " + std::to_string(rank) + " gave another list of ranks.");
    }
  }
  return {};
}

// Returns the options of a new group of `ranks`, which are ranks of this group.
HostProcessGroup::Options OptionsFor(const HostProcessGroupCore& core,
                                     const std::vector<int>& ranks,
                                     uint16_t group) {
  const auto self = std::find(ranks.begin(), ranks.end(), core.placement.rank());
  HostProcessGroup::Options options{.rank = static_cast<int>(self - ranks.begin()),
                                    .size = static_cast<int>(ranks.size()),
                                    .timeout = core.timeout.load(),
                                    .generation = core.generation,
                                    .recorder = core.recorder,
                                    .link_gigabit = core.link_gigabit};
  options.wire = core.wire;
  options.wire.group = group;
  options.wire.peers.clear();
  for (const int rank : ranks) {
    options.node_of_rank.push_back(core.placement.NodeOf(rank));
    options.names.push_back(core.placement.NameOf(rank));
    if (core.placement.nodes() == 1) continue;
    options.wire.peers.push_back(core.wire.peers[static_cast<size_t>(rank)]);
  }
  return options;
}

}  // namespace

FormedGroup FormGroup(HostProcessGroupCore& core, const std::vector<int>& ranks) {
  const int self = core.placement.rank();
  const size_t n = static_cast<size_t>(core.placement.size());
  if (ranks.size() > n) throw Failure(BadRanks(self, "The new group has too many ranks."));
  const auto on_this_node = [&](int rank) {
    return rank >= 0 && rank < core.placement.size() &&
           core.placement.NodeOf(rank) == core.placement.node();
  };
  const auto maker = std::find_if(ranks.begin(), ranks.end(), on_this_node);
  UniqueFd memory;
  Invitation own{.next_group = core.wire.next_group->load()};
  if (maker != ranks.end() && *maker == self) {
    memory = ValueOrThrow(SharedRegion::CreateFile());
    own.pid = getpid();
    own.fd = memory.get();
  }
  std::vector<int32_t> list(n, -1);
  std::copy(ranks.begin(), ranks.end(), list.begin());
  std::vector<Invitation> invitations(n);
  std::vector<int32_t> lists(n * n);
  const Clock::time_point deadline = core.Deadline(c10d::kUnsetTimeout);
  ThrowIfError(core.queue.RunNow([&]() -> Status {
    DDPRUN_TRY(core.group.AllGather(&own, invitations.data(), sizeof own, deadline));
    return core.group.AllGather(list.data(), lists.data(), n * sizeof(int32_t), deadline);
  }));
  Status joined = CheckLists(self, ranks, list, lists);
  if (joined.ok() && !ranks.empty() && !memory.valid()) {
    Result<UniqueFd> file = Open(invitations[static_cast<size_t>(*maker)]);
    if (!file) joined = file.error();
    if (file) memory = *std::move(file);
  }
  // A barrier, so that the makers keep their descriptors open until all ranks have opened them.
  ThrowIfError(core.queue.RunNow([&] { return core.group.Barrier(deadline); }));
  ThrowIfError(joined);
  // Gives each of the groups made together a number that is new to every rank, so that the flight
  // recorder's readers can distinguish the groups.
  int64_t next = 0;
  for (const Invitation& one : invitations) next = std::max(next, one.next_group);
  int64_t number = next;
  std::set<std::vector<int32_t>> others;
  for (size_t i = 0; i < n; ++i) {
    std::vector<int32_t> other(lists.begin() + i * n, lists.begin() + (i + 1) * n);
    if (other[0] < 0 || !others.insert(other).second) continue;
    if (other < list) ++number;
    ++next;
  }
  if (number >= kMaxGroups) throw Failure(BadRanks(self, "There are too many groups."));
  core.wire.next_group->store(static_cast<int>(next));
  if (ranks.empty()) return {};
  return {std::move(memory), OptionsFor(core, ranks, static_cast<uint16_t>(number))};
}

}  // namespace ddprun::trainer
