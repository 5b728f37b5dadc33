// HostProcessGroup: from one rank to another, and groups of some of the ranks.
#include <ATen/ops/empty_like.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/failure.h"
#include "trainer/comm/host_process_group.h"
#include "trainer/comm/host_process_group_core.h"
#include "trainer/comm/host_process_group_tensors.h"

namespace ddprun::trainer {

namespace {

// What the first rank of a new group tells the others: where its memory can be opened.
struct Invitation {
  int64_t pid = 0;
  int64_t fd = -1;
};

Error BadRanks(int rank, const std::string& what) {
  return Error{.code = Code::kFailed,
               .title = "BAD GROUP",
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

// Whether all ranks of the new group gave this rank's list, with which it is in. `lists` holds one
// of n entries, filled up with -1, from each of n ranks.
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

}  // namespace

class HostProcessGroup::MessageWork : public c10d::Work {
 public:
  MessageWork(int rank, c10d::OpType type, std::shared_ptr<Core> core, at::Tensor tensor)
      : c10d::Work(rank, type),
        core_(std::move(core)),
        tensor_(std::move(tensor)),
        flat_(type == c10d::OpType::SEND || tensor_.is_contiguous()
                  ? tensor_.contiguous()
                  : at::empty_like(tensor_, at::MemoryFormat::Contiguous)) {}

  void Start(int peer, int tag) {
    transfer_ = retrieveOpType() == c10d::OpType::SEND
                    ? core_->mailbox.Send(flat_.data_ptr(), flat_.nbytes(), peer, tag)
                    : core_->mailbox.Receive(flat_.data_ptr(), flat_.nbytes(), peer, tag);
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
  // REQUIRES: done.
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
  return StartMessage(c10d::OpType::SEND, Single(tensors), RankOf(destination, getSize()), tag);
}

HostProcessGroup::Work HostProcessGroup::recv(Tensors& tensors, int source, int tag) {
  return StartMessage(c10d::OpType::RECV, Single(tensors), RankOf(source, getSize()), tag);
}

HostProcessGroup::Work HostProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  return StartMessage(c10d::OpType::RECVANYSOURCE, Single(tensors), Mailbox::kAnyRank, tag);
}

c10::intrusive_ptr<HostProcessGroup> HostProcessGroup::NewGroup(const std::vector<int>& ranks) {
  const size_t n = static_cast<size_t>(getSize());
  if (ranks.size() > n) throw Failure(BadRanks(getRank(), "The new group has too many ranks."));
  UniqueFd memory;
  Invitation own;
  if (!ranks.empty() && ranks.front() == getRank()) {
    memory = ValueOrThrow(SharedRegion::CreateFile());
    own = {.pid = getpid(), .fd = memory.get()};
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
    Result<UniqueFd> file = Open(invitations[static_cast<size_t>(ranks.front())]);
    if (!file) joined = file.error();
    if (file) memory = *std::move(file);
  }
  // The first rank's descriptor stays open until everybody is here.
  ThrowIfError(core_->queue.RunNow([&] { return core_->group.Barrier(deadline); }));
  ThrowIfError(joined);
  if (ranks.empty()) return nullptr;
  const auto self = std::find(ranks.begin(), ranks.end(), getRank());
  const Options options{.rank = static_cast<int>(self - ranks.begin()),
                        .size = static_cast<int>(ranks.size()),
                        .timeout = core_->timeout.load()};
  return c10::intrusive_ptr<HostProcessGroup>::unsafe_steal_from_new(
      new HostProcessGroup(memory, options, core_->spin));
}

}  // namespace ddprun::trainer
