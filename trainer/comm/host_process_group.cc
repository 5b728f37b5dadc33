#include "trainer/comm/host_process_group.h"

#include <ATen/Functions.h>
#include <sched.h>

#include "base/failure.h"

namespace ddprun::trainer {

namespace {

// Spinning is for ranks that have a core each.
std::chrono::nanoseconds SpinTime(int ranks) {
  cpu_set_t allowed;
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const int cores = known ? CPU_COUNT(&allowed) : 1;
  return ranks <= cores ? std::chrono::microseconds(50) : std::chrono::nanoseconds(0);
}

[[noreturn]] void Refuse(const std::string& what, const std::string& hint) {
  throw Failure(Error{.code = Code::kFailed,
                      .title = "UNSUPPORTED TENSOR",
                      .where = "",
                      .what = what,
                      .hint = hint,
                      .page = "unsupported-tensor"});
}

DataType TypeOf(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DataType::kFloat32;
    case at::kDouble:
      return DataType::kFloat64;
    case at::kHalf:
      return DataType::kFloat16;
    case at::kBFloat16:
      return DataType::kBFloat16;
    case at::kInt:
      return DataType::kInt32;
    case at::kLong:
      return DataType::kInt64;
    case at::kByte:
      return DataType::kUInt8;
    default:
      Refuse("A collective on host memory was given a tensor of type " +
                 std::string(c10::toString(tensor.scalar_type())) + ".",
             "It takes float32, float64, float16, bfloat16, int32, int64 and uint8.");
  }
}

Reduction ReductionOf(const c10d::ReduceOp& op, DataType type) {
  const bool floating =
      type != DataType::kInt32 && type != DataType::kInt64 && type != DataType::kUInt8;
  switch (op) {
    case c10d::ReduceOp::SUM:
      return Reduction::kSum;
    case c10d::ReduceOp::AVG:
      if (!floating) Refuse("all_reduce cannot average integers.", "Use a sum and divide.");
      return Reduction::kAvg;
    case c10d::ReduceOp::MAX:
      return Reduction::kMax;
    case c10d::ReduceOp::MIN:
      return Reduction::kMin;
    case c10d::ReduceOp::PRODUCT:
      return Reduction::kProduct;
    default:
      Refuse("all_reduce was asked for a reduction that it does not have.",
             "It has sum, avg, max, min and product.");
  }
}

const at::Tensor& Single(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() != 1) {
    Refuse("A collective was given " + std::to_string(tensors.size()) + " tensors.",
           "Give one tensor per process.");
  }
  if (!tensors[0].device().is_cpu() || tensors[0].layout() != at::kStrided) {
    Refuse("A collective on host memory was given a tensor on " + tensors[0].device().str() + ".",
           "It takes dense tensors on the CPU.");
  }
  return tensors[0];
}

class HostWork : public c10d::Work {
 public:
  // `entry` is nullptr when the operation is done.
  HostWork(int rank,
           c10d::OpType type,
           OperationQueue& queue,
           std::shared_ptr<OperationQueue::Entry> entry)
      : c10d::Work(rank, type), queue_(queue), entry_(std::move(entry)) {}

  bool isCompleted() override {
    return entry_ == nullptr || entry_->done.load(std::memory_order_acquire);
  }
  bool isSuccess() const override {
    return entry_ == nullptr ||
           (entry_->done.load(std::memory_order_acquire) && entry_->status.ok());
  }
  // The operation has its own deadline; `timeout` is not needed.
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    if (entry_ == nullptr) return true;
    queue_.Wait(*entry_);
    if (!entry_->status.ok()) throw Failure(entry_->status.error());
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }

 private:
  OperationQueue& queue_;
  const std::shared_ptr<OperationQueue::Entry> entry_;
};

// Runs `operation` on the data of `tensor`, through a contiguous copy where it has gaps.
template <typename Operation>
Status OnContiguous(const at::Tensor& tensor, const Operation& operation) {
  if (tensor.is_contiguous()) return operation(tensor.data_ptr());
  const at::Tensor copy = tensor.contiguous();
  DDPRUN_TRY(operation(copy.data_ptr()));
  tensor.copy_(copy);
  return {};
}

}  // namespace

c10::intrusive_ptr<HostProcessGroup> HostProcessGroup::Create(const UniqueFd& memory,
                                                              const Options& options) {
  std::shared_ptr<SharedRegion> region = ValueOrThrow(SharedRegion::Map(memory, options.size));
  return c10::intrusive_ptr<HostProcessGroup>::unsafe_steal_from_new(
      new HostProcessGroup(std::move(region), options));
}

HostProcessGroup::HostProcessGroup(std::shared_ptr<SharedRegion> region, const Options& options)
    : Backend(options.rank, options.size),
      region_(std::move(region)),
      timeout_(options.timeout),
      group_(*region_, {.rank = options.rank, .spin = SpinTime(options.size)}) {}

// A collective that still waits for peers must not keep a failing process alive.
HostProcessGroup::~HostProcessGroup() {
  group_.Cancel();
}

Clock::time_point HostProcessGroup::Deadline(std::chrono::milliseconds timeout) const {
  return Clock::now() + (timeout == c10d::kUnsetTimeout ? timeout_.load() : timeout);
}

c10::intrusive_ptr<c10d::Work> HostProcessGroup::Run(c10d::OpType type,
                                                     bool async,
                                                     OperationQueue::Function run) {
  std::shared_ptr<OperationQueue::Entry> entry;
  if (async) {
    entry = queue_.Submit(std::move(run));
  } else {
    ThrowIfError(queue_.RunNow(run));
  }
  return c10::make_intrusive<HostWork>(getRank(), type, queue_, std::move(entry));
}

c10::intrusive_ptr<c10d::Work> HostProcessGroup::allreduce(std::vector<at::Tensor>& tensors,
                                                           const c10d::AllreduceOptions& options) {
  const at::Tensor tensor = Single(tensors);
  const DataType type = TypeOf(tensor);
  const Reduction reduction = ReductionOf(options.reduceOp, type);
  return Run(c10d::OpType::ALLREDUCE, options.asyncOp, [=, this, timeout = options.timeout] {
    return OnContiguous(tensor, [&](void* data) {
      const size_t count = static_cast<size_t>(tensor.numel());
      return group_.AllReduce(data, count, type, reduction, Deadline(timeout));
    });
  });
}

c10::intrusive_ptr<c10d::Work> HostProcessGroup::broadcast(std::vector<at::Tensor>& tensors,
                                                           const c10d::BroadcastOptions& options) {
  const at::Tensor tensor = Single(tensors);
  const int root = static_cast<int>(options.rootRank);
  return Run(c10d::OpType::BROADCAST, options.asyncOp, [=, this, timeout = options.timeout] {
    return OnContiguous(tensor, [&](void* data) {
      return group_.Broadcast(data, tensor.nbytes(), root, Deadline(timeout));
    });
  });
}

c10::intrusive_ptr<c10d::Work> HostProcessGroup::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  if (output.numel() != input.numel() * getSize() || output.dtype() != input.dtype() ||
      !output.is_contiguous()) {
    Refuse("all_gather needs a contiguous output of " + std::to_string(getSize()) +
               " times the input's elements and of its type.",
           "");
  }
  Single({input});
  return Run(c10d::OpType::_ALLGATHER_BASE, options.asyncOp,
             [this, out = output, in = input.contiguous(), timeout = options.timeout] {
               return group_.AllGather(in.data_ptr(), out.data_ptr(), in.nbytes(),
                                       Deadline(timeout));
             });
}

c10::intrusive_ptr<c10d::Work> HostProcessGroup::allgather(
    std::vector<std::vector<at::Tensor>>& outputs,
    std::vector<at::Tensor>& inputs,
    const c10d::AllgatherOptions& options) {
  const at::Tensor input = Single(inputs).contiguous();
  if (outputs.size() != 1 || outputs[0].size() != static_cast<size_t>(getSize())) {
    Refuse("all_gather needs one output tensor per rank (" + std::to_string(getSize()) + ").", "");
  }
  for (const at::Tensor& output : outputs[0]) {
    if (output.numel() != input.numel() || output.dtype() != input.dtype()) {
      Refuse("all_gather needs outputs with the elements and type of the input.", "");
    }
  }
  return Run(c10d::OpType::ALLGATHER, options.asyncOp,
             [this, out = outputs[0], input, timeout = options.timeout]() -> Status {
               const at::Tensor all = at::empty({getSize(), input.numel()}, input.options());
               DDPRUN_TRY(group_.AllGather(input.data_ptr(), all.data_ptr(), input.nbytes(),
                                           Deadline(timeout)));
               for (size_t rank = 0; rank < out.size(); ++rank) {
                 const at::Tensor part = all[static_cast<int64_t>(rank)];
                 out[rank].copy_(part.view(out[rank].sizes()));
               }
               return {};
             });
}

c10::intrusive_ptr<c10d::Work> HostProcessGroup::barrier(const c10d::BarrierOptions& options) {
  return Run(c10d::OpType::BARRIER, options.asyncOp,
             [this, timeout = options.timeout] { return group_.Barrier(Deadline(timeout)); });
}

at::Tensor HostProcessGroup::allocateTensor(long size, at::TensorOptions options) {
  const size_t bytes = static_cast<size_t>(size) * options.dtype().itemsize();
  std::byte* data = region_->Allocate(getRank(), bytes);
  if (data == nullptr) {
    Refuse("No shared memory is left for a tensor of " + std::to_string(bytes) + " bytes.",
           "Free other tensors of allocateTensor first.");
  }
  const auto free = [region = region_, rank = getRank(), data](void*) { region->Free(rank, data); };
  return at::from_blob(data, {size}, free, options.device(at::kCPU));
}

}  // namespace ddprun::trainer
