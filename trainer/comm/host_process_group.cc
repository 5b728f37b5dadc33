#include "trainer/comm/host_process_group.h"

#include <ATen/ops/from_blob.h>
#include <sched.h>

#include <algorithm>

#include "base/failure.h"
#include "trainer/comm/host_process_group_core.h"
#include "trainer/comm/host_process_group_tensors.h"
#include "trainer/comm/multi_node_group.h"
#include "trainer/comm/node_group.h"

namespace ddprun::trainer {

namespace {

std::vector<int> NodeOfRank(const HostProcessGroup::Options& options) {
  if (!options.node_of_rank.empty()) return options.node_of_rank;
  return std::vector<int>(static_cast<size_t>(options.size), 0);
}

int MembersOnThisNode(const HostProcessGroup::Options& options) {
  const std::vector<int> nodes = NodeOfRank(options);
  return static_cast<int>(std::ranges::count(nodes, nodes[static_cast<size_t>(options.rank)]));
}

std::shared_ptr<SharedRegion> MapMemory(const UniqueFd& memory,
                                        const HostProcessGroup::Options& options) {
  return ValueOrThrow(SharedRegion::Map(memory, MembersOnThisNode(options), options.generation));
}

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

// Returns `run` with errors that name the group, as setGroupDesc() has set it.
OperationQueue::Function Described(const std::string& group, OperationQueue::Function run) {
  return [group, run = std::move(run)]() -> Status {
    Status status = run();
    if (status.ok()) return status;
    Error error = status.error();
    error.where += " of the " + group;
    return error;
  };
}

}  // namespace

// A collective. If `entry` is nullptr, it is done.
class HostProcessGroup::CollectiveWork : public c10d::Work {
 public:
  CollectiveWork(int rank,
                 c10d::OpType type,
                 std::shared_ptr<Core> core,
                 std::shared_ptr<OperationQueue::Entry> entry,
                 Tensors outputs)
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
  Tensors result() override { return outputs_; }
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
  const std::shared_ptr<Core> core_;
  const std::shared_ptr<OperationQueue::Entry> entry_;
  const Tensors outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

std::chrono::nanoseconds HostProcessGroup::SpinTime(int ranks) {
  cpu_set_t allowed;
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const int cores = known ? CPU_COUNT(&allowed) : 1;
  return ranks <= cores ? std::chrono::microseconds(50) : std::chrono::nanoseconds(0);
}

c10::intrusive_ptr<HostProcessGroup> HostProcessGroup::Create(const UniqueFd& memory,
                                                              const Options& options) {
  return c10::intrusive_ptr<HostProcessGroup>::unsafe_steal_from_new(
      new HostProcessGroup(memory, options, SpinTime(MembersOnThisNode(options))));
}

HostProcessGroup::Core::Core(std::shared_ptr<SharedRegion> memory,
                             const Options& options,
                             std::chrono::nanoseconds spin_time)
    : placement(options.rank, NodeOfRank(options), options.names),
      wire(options.wire),
      region(std::move(memory)),
      recorder(options.recorder),
      generation(options.generation),
      spin(spin_time),
      timeout(options.timeout),
      collectives(MakeCollectives()),
      group(*collectives),
      mailbox(*region,
              placement,
              wire,
              {.spin = spin, .recorder = recorder.get(), .recorded_group = RecordedGroup()}) {
  const uint16_t group_number = RecordedGroup();
  if (recorder != nullptr && !IsOfAllRanks(group_number)) recorder->NoteGroup(group_number);
}

// Returns Collective::group.
uint16_t HostProcessGroup::Core::RecordedGroup() const {
  return static_cast<uint16_t>(generation << kPartGroupBits | wire.group);
}

std::unique_ptr<Collectives> HostProcessGroup::Core::MakeCollectives() const {
  NodeMeeting::Options options{.rank = local_rank(),
                               .spin = spin,
                               .recorder = recorder.get(),
                               .names = placement.MemberNames(placement.node()),
                               .group = RecordedGroup()};
  if (placement.nodes() > 1) {
    return std::make_unique<MultiNodeGroup>(*region, placement, wire, options);
  }
  options.generation = AllRanksGeneration();
  return std::make_unique<NodeGroup>(*region, std::move(options));
}

std::optional<int> HostProcessGroup::Core::AllRanksGeneration() const {
  return wire.group == 0 ? std::optional<int>(generation) : std::nullopt;
}

HostProcessGroup::HostProcessGroup(const UniqueFd& memory,
                                   const Options& options,
                                   std::chrono::nanoseconds spin)
    : Backend(options.rank, options.size),
      core_(std::make_shared<Core>(MapMemory(memory, options), options, spin)) {}

// Aborts, so that operations which wait for peers do not keep a failing process alive.
HostProcessGroup::~HostProcessGroup() {
  abort();
}

void HostProcessGroup::setTimeout(std::chrono::milliseconds timeout) {
  core_->timeout = timeout;
}

void HostProcessGroup::SetAllReduceAlgorithm(AllReduceAlgorithm algorithm) {
  core_->algorithm = algorithm;
}

void HostProcessGroup::abort() {
  core_->group.Cancel();
  core_->mailbox.Cancel();
}

void HostProcessGroup::CheckRanks() const {
  const std::optional<int> generation = core_->AllRanksGeneration();
  if (core_->recorder == nullptr || core_->placement.nodes() > 1 || !generation) return;
  const std::vector<LostWorker> lost = core_->recorder->LostWorkersSince(*generation);
  if (lost.empty()) return;
  throw Failure(RankLost(getRank(), lost.front().local_rank, "the end of what it had begun"));
}

void HostProcessGroup::Renew() {
  abort();
  const std::shared_ptr<Core> before = core_;
  // Waits for running operations, because they use other ranks' memory. The other ranks keep it
  // until then, because they wait here, too.
  ThrowIfError(before->queue.RunNow([] { return Status(); }));
  ControlBlock& own = before->region->control(before->local_rank());
  own.given_up = true;
  AdvanceAndWake(own.arrived, own.sleepers, own.arrived);
  ThrowIfError(before->region->Renew(before->generation + 1));
  core_ = std::make_shared<Core>(before->region,
                                 Options{.rank = getRank(),
                                         .size = getSize(),
                                         .timeout = before->timeout.load(),
                                         .generation = before->generation + 1,
                                         .recorder = before->recorder},
                                 before->spin);
  core_->algorithm = before->algorithm.load();
}

void HostProcessGroup::FreeOldGenerations() {
  core_->region->FreeOldGenerations();
}

int HostProcessGroup::generation() const {
  return core_->generation;
}

uint64_t HostProcessGroup::getSequenceNumberForGroup() {
  return core_->begun;
}

// Tells the recorder of the operation now. Returns `run` with the recorder's ticket for its first
// collective.
OperationQueue::Function HostProcessGroup::Announced(c10d::OpType type,
                                                     OperationQueue::Function run) {
  const uint64_t ticket = core_->recorder->Schedule({.kind = KindOf(type)});
  return [core = core_.get(), ticket, run = std::move(run)] {
    core->group.UseTicket(ticket);
    return run();
  };
}

HostProcessGroup::Work HostProcessGroup::Run(c10d::OpType type,
                                             bool async,
                                             Tensors outputs,
                                             OperationQueue::Function run) {
  ++core_->begun;
  if (core_->recorder != nullptr) run = Announced(type, std::move(run));
  if (!getGroupDesc().empty()) run = Described(getGroupDesc(), std::move(run));
  std::shared_ptr<OperationQueue::Entry> entry;
  if (async) {
    entry = core_->queue.Submit(std::move(run));
  } else {
    ThrowIfError(core_->queue.RunNow(run));
  }
  return c10::make_intrusive<CollectiveWork>(getRank(), type, core_, std::move(entry),
                                             std::move(outputs));
}

HostProcessGroup::Work HostProcessGroup::allreduce(std::vector<at::Tensor>& tensors,
                                                   const c10d::AllreduceOptions& options) {
  if (OnDevice(tensors)) {
    return Staged(tensors, tensors.size(), options.asyncOp,
                  [&](Tensors& host) { return allreduce(host, options); });
  }
  const at::Tensor tensor = Single(tensors);
  const DataType type = TypeOf(tensor);
  const Reduction reduction = ReductionOf(options.reduceOp, type);
  return Run(
      c10d::OpType::ALLREDUCE, options.asyncOp, tensors,
      [=, core = core_.get(), timeout = options.timeout, algorithm = core_->algorithm.load()] {
        return OnContiguous(tensor, [&](void* data) {
          const size_t count = static_cast<size_t>(tensor.numel());
          return core->group.AllReduce(data, count, type, reduction, core->Deadline(timeout),
                                       algorithm);
        });
      });
}

HostProcessGroup::Work HostProcessGroup::broadcast(std::vector<at::Tensor>& tensors,
                                                   const c10d::BroadcastOptions& options) {
  if (OnDevice(tensors)) {
    return Staged(tensors, tensors.size(), options.asyncOp,
                  [&](Tensors& host) { return broadcast(host, options); });
  }
  const at::Tensor tensor = Single(tensors);
  const int root = RankOf(options.rootRank, getSize());
  return Run(c10d::OpType::BROADCAST, options.asyncOp, tensors,
             [=, core = core_.get(), timeout = options.timeout] {
               return OnContiguous(tensor, [&](void* data) {
                 return core->group.Broadcast(data, tensor.nbytes(), root, core->Deadline(timeout));
               });
             });
}

HostProcessGroup::Work HostProcessGroup::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  for (const at::Tensor& tensor : tensors) {
    CheckOnHost(tensor);
    ReductionOf(options.reduceOp, TypeOf(tensor));
  }
  return Run(c10d::OpType::ALLREDUCE_COALESCED, options.asyncOp, tensors,
             [core = core_.get(), tensors, op = options.reduceOp, timeout = options.timeout,
              algorithm = core_->algorithm.load()]() -> Status {
               for (const at::Tensor& tensor : tensors) {
                 const DataType type = TypeOf(tensor);
                 DDPRUN_TRY(OnContiguous(tensor, [&](void* data) {
                   return core->group.AllReduce(data, static_cast<size_t>(tensor.numel()), type,
                                                ReductionOf(op, type), core->Deadline(timeout),
                                                algorithm);
                 }));
               }
               return {};
             });
}

HostProcessGroup::Work HostProcessGroup::reduce(Tensors& tensors,
                                                const c10d::ReduceOptions& options) {
  const at::Tensor tensor = Single(tensors);
  const DataType type = TypeOf(tensor);
  const Reduction reduction = ReductionOf(options.reduceOp, type);
  const int root = RankOf(options.rootRank, getSize());
  return Run(c10d::OpType::REDUCE, options.asyncOp, tensors,
             [=, core = core_.get(), timeout = options.timeout]() -> Status {
               const at::Tensor data = tensor.contiguous();
               DDPRUN_TRY(core->group.Reduce(data.data_ptr(), static_cast<size_t>(data.numel()),
                                             type, reduction, root, core->Deadline(timeout)));
               if (core->group.rank() == root && !data.is_same(tensor)) tensor.copy_(data);
               return {};
             });
}

void HostProcessGroup::monitoredBarrier(const c10d::BarrierOptions& options,
                                        bool /*wait_all_ranks*/) {
  barrier(options)->wait();
}

HostProcessGroup::Work HostProcessGroup::barrier(const c10d::BarrierOptions& options) {
  return Run(c10d::OpType::BARRIER, options.asyncOp, {},
             [core = core_.get(), timeout = options.timeout] {
               return core->group.Barrier(core->Deadline(timeout));
             });
}

void HostProcessGroup::Stream(int root,
                              bool takes,
                              const std::function<void(const PassBytes& pass)>& use) {
  Run(c10d::OpType::BROADCAST, /*async=*/false, {}, [&, core = core_.get()]() -> Status {
    auto& group = dynamic_cast<NodeGroup&>(core->group);
    return group.Stream(root, takes, core->timeout.load(), [&](const NodeGroup::PassBytes& pass) {
      try {
        use([&](void* data, size_t bytes) { ThrowIfError(pass(data, bytes)); });
      } catch (const Failure& failure) {
        return Status(failure.error());  // because other ranks wait at the end of the stream
      }
      return Status();
    });
  });
}

at::Tensor HostProcessGroup::allocateTensor(long size, at::TensorOptions options) {
  const size_t bytes = static_cast<size_t>(size) * options.dtype().itemsize();
  std::byte* data = core_->region->Allocate(core_->local_rank(), bytes);
  if (data == nullptr) {
    RefuseTensor("No shared memory is left for a tensor of " + std::to_string(bytes) + " bytes.",
                 "Free other tensors of allocateTensor first.");
  }
  const auto free = [region = core_->region, rank = core_->local_rank(), data](void*) {
    region->Free(rank, data);
  };
  return at::from_blob(data, {size}, free, options.device(at::kCPU));
}

}  // namespace ddprun::trainer
