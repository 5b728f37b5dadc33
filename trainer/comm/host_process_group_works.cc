#include "trainer/comm/host_process_group_works.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include "base/failure.h"
#include "trainer/comm/host_process_group_core.h"
#include "trainer/comm/host_process_group_tensors.h"

namespace ddprun::trainer {

namespace {

CollectiveKind KindOf(c10d::OpType type) {
  switch (type) {
    case c10d::OpType::ALLREDUCE:
    case c10d::OpType::ALLREDUCE_COALESCED:
      return CollectiveKind::kAllReduce;
    case c10d::OpType::BROADCAST:
      return CollectiveKind::kBroadcast;
    case c10d::OpType::_ALLGATHER_BASE:
    case c10d::OpType::ALLGATHER:
      return CollectiveKind::kAllGather;
    case c10d::OpType::BARRIER:
      return CollectiveKind::kBarrier;
    case c10d::OpType::REDUCE:
      return CollectiveKind::kReduce;
    case c10d::OpType::REDUCE_SCATTER:
    case c10d::OpType::_REDUCE_SCATTER_BASE:
      return CollectiveKind::kReduceScatter;
    default:
      return CollectiveKind::kOther;  // until the operation begins
  }
}

// Returns `run` with errors that name the group.
OperationQueue::Function Described(const std::string& group, OperationQueue::Function run) {
  return [group, run = std::move(run)]() -> Status {
    Status status = run();
    if (status.ok()) return status;
    Error error = status.error();
    error.where += " of the " + group;
    return error;
  };
}

// A collective. If `entry` is nullptr, it is done.
class CollectiveWork : public c10d::Work {
 public:
  CollectiveWork(int rank,
                 c10d::OpType type,
                 std::shared_ptr<HostProcessGroupCore> core,
                 std::shared_ptr<OperationQueue::Entry> entry,
                 std::vector<at::Tensor> outputs)
      : c10d::Work(rank, type),
        core_(std::move(core)),
        entry_(std::move(entry)),
        outputs_(std::move(outputs)) {}

  bool isCompleted() override {
    return entry_ == nullptr || entry_->done.load(std::memory_order_acquire);
  }
  bool isSuccess() const override {
    return entry_ == nullptr ||
           (entry_->done.load(std::memory_order_acquire) && entry_->status.ok());
  }
  // Ignores `timeout`, because the operation has its own deadline.
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    if (entry_ == nullptr) return true;
    core_->queue.Wait(*entry_);
    if (!entry_->status.ok()) throw Failure(entry_->status.error());
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }
  std::vector<at::Tensor> result() override { return outputs_; }
  // Returns the future of result(). Only one thread may call it.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    if (future_ != nullptr) return future_;
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    const auto complete = [future = future_, outputs = outputs_](const Status& status) {
      if (status.ok()) return future->markCompleted(c10::IValue(outputs));
      future->setError(std::make_exception_ptr(Failure(status.error())));
    };
    if (entry_ == nullptr) {
      complete({});
    } else {
      core_->queue.OnDone(*entry_, complete);
    }
    return future_;
  }

 private:
  const std::shared_ptr<HostProcessGroupCore> core_;
  const std::shared_ptr<OperationQueue::Entry> entry_;
  const std::vector<at::Tensor> outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Schedules the operation in the recorder now. Returns `run` with the recorder's ticket for its
// first collective.
OperationQueue::Function Announced(HostProcessGroupCore* core,
                                   c10d::OpType type,
                                   OperationQueue::Function run) {
  const uint64_t ticket = core->recorder->Schedule({.kind = KindOf(type)});
  return [core, ticket, run = std::move(run)] {
    core->group.UseTicket(ticket);
    return run();
  };
}

// Returns the only tensor. It may be on a device, because messages go through the host.
const at::Tensor& OneOf(const std::vector<at::Tensor>& tensors) {
  return tensors.size() == 1 && OnDevice(tensors) ? tensors[0] : Single(tensors);
}

class MessageWork : public c10d::Work {
 public:
  MessageWork(int rank,
              c10d::OpType type,
              std::shared_ptr<HostProcessGroupCore> core,
              at::Tensor tensor)
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
      const at::NoGradGuard no_grad;
      tensor_.copy_(flat_);
    }
    copied_ = true;
  }

  const std::shared_ptr<HostProcessGroupCore> core_;
  const at::Tensor tensor_;
  const at::Tensor flat_;
  Mailbox::Handle transfer_;
  Clock::time_point deadline_;
  bool copied_ = false;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> StartCollective(const std::shared_ptr<HostProcessGroupCore>& core,
                                               const std::string& group,
                                               c10d::OpType type,
                                               bool async,
                                               std::vector<at::Tensor> outputs,
                                               OperationQueue::Function run) {
  ++core->begun;
  if (core->recorder != nullptr) run = Announced(core.get(), type, std::move(run));
  if (!group.empty()) run = Described(group, std::move(run));
  run = [run = std::move(run)] {
    const at::NoGradGuard no_grad;  // an output may be a leaf that requires a gradient
    return run();
  };
  std::shared_ptr<OperationQueue::Entry> entry;
  if (async) {
    entry = core->queue.Submit(std::move(run));
  } else {
    ThrowIfError(core->queue.RunNow(run));
  }
  return c10::make_intrusive<CollectiveWork>(core->placement.rank(), type, core, std::move(entry),
                                             std::move(outputs));
}

c10::intrusive_ptr<c10d::Work> StartMessage(std::shared_ptr<HostProcessGroupCore> core,
                                            c10d::OpType type,
                                            const std::vector<at::Tensor>& tensors,
                                            int peer,
                                            int tag) {
  const int rank = core->placement.rank();
  auto work = c10::make_intrusive<MessageWork>(rank, type, std::move(core), OneOf(tensors));
  work->Start(peer, tag);
  return work;
}

}  // namespace ddprun::trainer
