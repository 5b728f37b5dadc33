// The messages of HostProcessGroup from one rank to another, and groups of some of its ranks.
#include <ATen/ops/empty_like.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/failure.h"
#include "trainer/comm/host_process_group.h"
#include "trainer/comm/host_process_group_core.h"
#include "trainer/comm/host_process_group_tensors.h"

namespace ddprun::trainer {

namespace {

// What each rank sends to the others when they make a new group. The first rank of the new group on
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
               .hint = "Every rank of the new group must give the same list, itself in it.",
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

// Returns the only tensor. It may be on a device, because messages from and for a device go through
// the host.
const at::Tensor& OneOf(const std::vector<at::Tensor>& tensors) {
  return tensors.size() == 1 && OnDevice(tensors) ? tensors[0] : Single(tensors);
}

}  // namespace

class HostProcessGroup::MessageWork : public c10d::Work {
 public:
  MessageWork(int rank, c10d::OpType type, std::shared_ptr<Core> core, at::Tensor tensor)
      : c10d::Work(rank, type),
        core_(std::move(core)),
        tensor_(std::move(tensor)),
        flat_(type == c10d::OpType::SEND || (tensor_.is_contiguous() && tensor_.is_cpu())
                  ? tensor_.contiguous().cpu()
                  : at::empty_like(tensor_, at::device(at::kCPU), at::MemoryFormat::Contiguous)) {}

  void Start(int peer, int tag) {
    transfer_ = retrieveOpType() == c10d::OpType::SEND
                    ? core_->mailbox.Send(flat_.data_ptr(), flat_.nbytes(), peer, tag)
                    : core_->mailbox.Receive(flat_.data_ptr(), flat_.nbytes(), peer, tag,
                                             std::make_shared<at::Tensor>(flat_));
    deadline_ = core_->Deadline(c10d::kUnsetTimeout);
  }

  bool isCompleted() override {
    if (!core_->mailbox.Test(*transfer_)) return false;
    if (transfer_->status.ok()) CopyOut();
    return true;
  }
  bool isSuccess() const override {
    return core_->mailbox.Test(*transfer_) && transfer_->status.ok();
  }
  // REQUIRES: the message is done.
  int sourceRank() const override { return transfer_->peer; }
  bool wait(std::chrono::milliseconds timeout) override {
    ThrowIfError(core_->mailbox.Wait(*transfer_,
                                     timeout == kNoTimeout ? deadline_ : Clock::now() + timeout));
    CopyOut();
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }

 private:
  void CopyOut() {
    if (!copied_ && retrieveOpType() != c10d::OpType::SEND && !flat_.is_same(tensor_)) {
      tensor_.copy_(flat_);
    }
    copied_ = true;
  }

  const std::shared_ptr<Core> core_;
  const at::Tensor tensor_;
  const at::Tensor flat_;
  Mailbox::Handle transfer_;
  Clock::time_point deadline_;
  bool copied_ = false;
};

HostProcessGroup::Work HostProcessGroup::StartMessage(c10d::OpType type,
                                                      const at::Tensor& tensor,
                                                      int peer,
                                                      int tag) {
  auto work = c10::make_intrusive<MessageWork>(getRank(), type, core_, tensor);
  work->Start(peer, tag);
  return work;
}

HostProcessGroup::Work HostProcessGroup::send(Tensors& tensors, int destination, int tag) {
  return StartMessage(c10d::OpType::SEND, OneOf(tensors), RankOf(destination, getSize()), tag);
}

HostProcessGroup::Work HostProcessGroup::recv(Tensors& tensors, int source, int tag) {
  return StartMessage(c10d::OpType::RECV, OneOf(tensors), RankOf(source, getSize()), tag);
}

HostProcessGroup::Work HostProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  return StartMessage(c10d::OpType::RECVANYSOURCE, OneOf(tensors), Mailbox::kAnyRank, tag);
}

c10::intrusive_ptr<HostProcessGroup> HostProcessGroup::NewGroup(const std::vector<int>& ranks) {
  const size_t n = static_cast<size_t>(getSize());
  if (ranks.size() > n) throw Failure(BadRanks(getRank(), "The new group has too many ranks."));
  const auto on_this_node = [&](int rank) {
    return rank >= 0 && rank < getSize() &&
           core_->placement.NodeOf(rank) == core_->placement.node();
  };
  const auto maker = std::find_if(ranks.begin(), ranks.end(), on_this_node);
  UniqueFd memory;
  Invitation own{.next_group = core_->wire.next_group->load()};
  if (maker != ranks.end() && *maker == getRank()) {
    memory = ValueOrThrow(SharedRegion::CreateFile());
    own.pid = getpid();
    own.fd = memory.get();
  }
  std::vector<int32_t> list(n, -1);
  std::copy(ranks.begin(), ranks.end(), list.begin());
  std::vector<Invitation> invitations(n);
  std::vector<int32_t> lists(n * n);
  const Clock::time_point deadline = core_->Deadline(c10d::kUnsetTimeout);
  ThrowIfError(core_->queue.RunNow([&]() -> Status {
    DDPRUN_TRY(core_->group.AllGather(&own, invitations.data(), sizeof own, deadline));
    return core_->group.AllGather(list.data(), lists.data(), n * sizeof(int32_t), deadline);
  }));
  Status joined = CheckLists(getRank(), ranks, list, lists);
  if (joined.ok() && !ranks.empty() && !memory.valid()) {
    Result<UniqueFd> file = Open(invitations[static_cast<size_t>(*maker)]);
    if (!file) joined = file.error();
    if (file) memory = *std::move(file);
  }
  // A barrier, so that the makers keep their descriptors open until all ranks have opened them.
  ThrowIfError(core_->queue.RunNow([&] { return core_->group.Barrier(deadline); }));
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
  if (number >= kMaxGroups) throw Failure(BadRanks(getRank(), "There are too many groups."));
  core_->wire.next_group->store(static_cast<int>(next));
  if (ranks.empty()) return nullptr;
  return c10::intrusive_ptr<HostProcessGroup>::unsafe_steal_from_new(
      new HostProcessGroup(memory, OptionsFor(ranks, static_cast<uint16_t>(number)), core_->spin));
}

HostProcessGroup::Options HostProcessGroup::OptionsFor(const std::vector<int>& ranks,
                                                       uint16_t group) const {
  const auto self = std::find(ranks.begin(), ranks.end(), getRank());
  Options options{.rank = static_cast<int>(self - ranks.begin()),
                  .size = static_cast<int>(ranks.size()),
                  .timeout = core_->timeout.load(),
                  .generation = core_->generation,
                  .recorder = core_->recorder};
  options.wire = core_->wire;
  options.wire.group = group;
  options.wire.peers.clear();
  for (const int rank : ranks) {
    options.node_of_rank.push_back(core_->placement.NodeOf(rank));
    options.names.push_back(core_->placement.NameOf(rank));
    if (core_->placement.nodes() == 1) continue;
    options.wire.peers.push_back(core_->wire.peers[static_cast<size_t>(rank)]);
  }
  return options;
}

}  // namespace ddprun::trainer
