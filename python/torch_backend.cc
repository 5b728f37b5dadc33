#include "python/torch_backend.h"

#include <ATen/ops/empty.h>

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

namespace ddprun::python {

namespace {

// Of NCCL's PREMUL_SUM, which FSDP2 needs for set_gradient_divide_factor(), makes a sum: multiplies
// the tensors, or copies of them if they are not `in_place`. Returns the options without it.
template <typename Options>
Options Premultiplied(Options options, std::vector<at::Tensor>& tensors, bool in_place) {
  if (options.reduceOp.op_ != c10d::ReduceOp::PREMUL_SUM) return options;
  const auto& factor =
      static_cast<const c10d::NCCLPreMulSumSupplement&>(*options.reduceOp.supplement_);
  for (at::Tensor& tensor : tensors) {
    if (!in_place) tensor = tensor.clone();
    factor.tensor_factor.defined() ? tensor.mul_(factor.tensor_factor)
                                   : tensor.mul_(factor.double_factor);
  }
  options.reduceOp = c10d::ReduceOp::SUM;
  return options;
}

bool IsMessage(c10d::OpType type) {
  return type == c10d::OpType::SEND || type == c10d::OpType::RECV ||
         type == c10d::OpType::RECVANYSOURCE;
}

// The Work of a HostProcessGroup, with DistBackendErrors, and with an event in torch.profiler from
// its construction until its operation is done.
class TorchWork : public c10d::Work {
 public:
  TorchWork(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& tensors)
      : c10d::Work(rank, type, title, tensors) {}

  // Call it once, before all others.
  void SetWork(c10::intrusive_ptr<c10d::Work> work) {
    work_ = std::move(work);
    if (!recordFunctionEndCallback_) return;
    if (work_->isCompleted()) return EndEvent();
    // Messages have no future: their event ends when somebody waits for them.
    if (IsMessage(retrieveOpType())) return;
    const auto self = c10::intrusive_ptr<TorchWork>::unsafe_reclaim_from_nonowning(this);
    work_->getFuture()->addCallback([self](c10::ivalue::Future&) { self->EndEvent(); });
  }

  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  int sourceRank() const override { return work_->sourceRank(); }
  std::vector<at::Tensor> result() override { return work_->result(); }
  void synchronize() override { wait(kNoTimeout); }
  // After `timeout` a collective goes on, and a later wait() may return its result. A receive is
  // given up.
  bool wait(std::chrono::milliseconds timeout) override {
    const bool on_inner = timeout == kNoTimeout || IsMessage(retrieveOpType());
    if (!on_inner) WaitUntilDone(timeout);
    const bool done = Translated([&] { return work_->wait(on_inner ? timeout : kNoTimeout); });
    EndEvent();
    return done;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    const std::lock_guard lock(mutex_);
    if (future_ != nullptr) return future_;
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    work_->getFuture()->addCallback([future = future_](c10::ivalue::Future& done) {
      if (!done.hasError()) return future->markCompleted(done.value());
      try {
        Translated([&] { std::rethrow_exception(done.exception_ptr()); });
      } catch (...) {
        future->setError(std::current_exception());
      }
    });
    return future_;
  }

 private:
  void WaitUntilDone(std::chrono::milliseconds timeout) {
    const auto promise = std::make_shared<std::promise<void>>();
    std::future<void> done = promise->get_future();
    getFuture()->addCallback([promise](c10::ivalue::Future&) { promise->set_value(); });
    if (done.wait_for(timeout) == std::future_status::ready) return;
    C10_THROW_ERROR(DistBackendError, "ddprun: " + c10d::opTypeToString(retrieveOpType()) +
                                          " was not done after the " +
                                          std::to_string(timeout.count()) +
                                          " ms that wait() was given. It goes on.");
  }

  // The future's callback and wait() may both come, on different threads.
  void EndEvent() {
    std::function<void()> end;
    {
      const std::lock_guard lock(mutex_);
      end = std::exchange(recordFunctionEndCallback_, nullptr);
    }
    if (end) end();
  }

  c10::intrusive_ptr<c10d::Work> work_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace

std::string TextFor(const Error& error) {
  std::string text = "ddprun: " + error.title;
  if (!error.where.empty()) text += " (" + error.where + ")";
  text += "\n" + error.what;
  std::string hint = error.hint;
  if (error.code == Code::kDeadlineExceeded) {
    hint =
        "Look at the output of the missing ranks. If they are only slow, give a longer timeout to "
        "init_process_group.";
  } else if (error.code == Code::kRankLost) {
    hint = "Look at the output of that rank.";
  }
  return hint.empty() ? text : text + "\n" + hint;
}

TorchBackend::TorchBackend(c10::intrusive_ptr<HostProcessGroup> group)
    : Backend(group->getRank(), group->getSize()), group_(std::move(group)) {
  group_->setGroupDesc("");  // else errors would name the group "undefined"
  // As with Gloo and NCCL, the bits of sums may depend on the placement of the ranks.
  group_->SetAllReduceAlgorithm(AllReduceAlgorithm::kHierarchical);
}

// A child of fork() keeps its copy, because it has neither the threads nor the place of this rank.
TorchBackend::~TorchBackend() {
  if (IsForked()) group_.release();
}

template <typename Start>
TorchBackend::Work TorchBackend::Run(c10d::OpType type,
                                     const char* title,
                                     const Tensors& tensors,
                                     const Start& start) {
  const auto group = Group();
  if (group == nullptr) {
    C10_THROW_ERROR(DistBackendError,
                    "ddprun: " + c10d::opTypeToString(type) +
                        (IsForked() ? " in a forked child: the group belongs to its parent."
                                    : " after the group was shut down."));
  }
  auto work = c10::make_intrusive<TorchWork>(getRank(), type, title, tensors);
  Translated([&] { work->SetWork(start(*group)); });
  return work;
}

c10::intrusive_ptr<HostProcessGroup> TorchBackend::Group() const {
  if (IsForked()) return nullptr;
  const std::lock_guard lock(mutex_);
  return group_;
}

void TorchBackend::setTimeout(std::chrono::milliseconds timeout) {
  if (const auto group = Group()) group->setTimeout(timeout);
}

void TorchBackend::abort() {
  if (const auto group = Group()) group->abort();
}

// Another thread may be in a call of the group, which ends soon after the abort and frees it then.
void TorchBackend::shutdown() {
  if (IsForked()) return;
  c10::intrusive_ptr<HostProcessGroup> group;
  {
    const std::lock_guard lock(mutex_);
    group = std::move(group_);
  }
  if (group != nullptr) group->abort();
}

uint64_t TorchBackend::getSequenceNumberForGroup() {
  const auto group = Group();
  return group == nullptr ? 0 : group->getSequenceNumberForGroup();
}

at::Tensor TorchBackend::allocateTensor(long size, at::TensorOptions options) {
  if (const auto group = Group()) {
    try {
      return group->allocateTensor(size, options);
    } catch (const Failure&) {  // the shared memory is full: other memory does, too
    }
  }
  return at::empty({size}, options);
}

TorchBackend::Work TorchBackend::allreduce(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) {
  return Run(c10d::OpType::ALLREDUCE, "ddprun:all_reduce", tensors, [&](HostProcessGroup& group) {
    return group.allreduce(tensors, Premultiplied(options, tensors, /*in_place=*/true));
  });
}

TorchBackend::Work TorchBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return Run(c10d::OpType::ALLREDUCE_COALESCED, "ddprun:all_reduce", tensors,
             [&](HostProcessGroup& group) {
               return group.allreduce_coalesced(tensors, Premultiplied(options, tensors, true));
             });
}

TorchBackend::Work TorchBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return Run(c10d::OpType::REDUCE, "ddprun:reduce", tensors, [&](HostProcessGroup& group) {
    Tensors summed = tensors;
    const bool is_root = options.rootRank == getRank();
    const auto plain = Premultiplied(options, summed, is_root);
    return group.reduce(summed, plain);
  });
}

TorchBackend::Work TorchBackend::broadcast(Tensors& tensors,
                                           const c10d::BroadcastOptions& options) {
  return Run(c10d::OpType::BROADCAST, "ddprun:broadcast", tensors,
             [&](HostProcessGroup& group) { return group.broadcast(tensors, options); });
}

TorchBackend::Work TorchBackend::allgather(Lists& outputs,
                                           Tensors& inputs,
                                           const c10d::AllgatherOptions& options) {
  return Run(c10d::OpType::ALLGATHER, "ddprun:all_gather", inputs,
             [&](HostProcessGroup& group) { return group.allgather(outputs, inputs, options); });
}

TorchBackend::Work TorchBackend::allgather_coalesced(Lists& outputs,
                                                     Tensors& inputs,
                                                     const c10d::AllgatherOptions& options) {
  return Run(c10d::OpType::ALLGATHER, "ddprun:all_gather", inputs, [&](HostProcessGroup& group) {
    return group.allgather_coalesced(outputs, inputs, options);
  });
}

TorchBackend::Work TorchBackend::_allgather_base(at::Tensor& output,
                                                 at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) {
  return Run(
      c10d::OpType::_ALLGATHER_BASE, "ddprun:all_gather_into_tensor", {input},
      [&](HostProcessGroup& group) { return group._allgather_base(output, input, options); });
}

TorchBackend::Work TorchBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return Run(c10d::OpType::_ALLGATHER_BASE, "ddprun:all_gather_into_tensor", inputs,
             [&](HostProcessGroup& group) {
               return group.allgather_into_tensor_coalesced(outputs, inputs, options);
             });
}

TorchBackend::Work TorchBackend::gather(Lists& outputs,
                                        Tensors& inputs,
                                        const c10d::GatherOptions& options) {
  return Run(c10d::OpType::GATHER, "ddprun:gather", inputs,
             [&](HostProcessGroup& group) { return group.gather(outputs, inputs, options); });
}

TorchBackend::Work TorchBackend::scatter(Tensors& outputs,
                                         Lists& inputs,
                                         const c10d::ScatterOptions& options) {
  return Run(c10d::OpType::SCATTER, "ddprun:scatter", inputs.empty() ? Tensors() : inputs[0],
             [&](HostProcessGroup& group) { return group.scatter(outputs, inputs, options); });
}

TorchBackend::Work TorchBackend::reduce_scatter(Tensors& outputs,
                                                Lists& inputs,
                                                const c10d::ReduceScatterOptions& options) {
  return Run(c10d::OpType::REDUCE_SCATTER, "ddprun:reduce_scatter",
             inputs.empty() ? Tensors() : inputs[0], [&](HostProcessGroup& group) {
               Lists summed = inputs;
               c10d::ReduceScatterOptions plain = options;
               for (Tensors& list : summed) plain = Premultiplied(options, list, false);
               return group.reduce_scatter(outputs, summed, plain);
             });
}

TorchBackend::Work TorchBackend::_reduce_scatter_base(at::Tensor& output,
                                                      at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& options) {
  return Run(c10d::OpType::_REDUCE_SCATTER_BASE, "ddprun:reduce_scatter_tensor", {input},
             [&](HostProcessGroup& group) {
               Tensors summed = {input};
               const auto plain = Premultiplied(options, summed, false);
               return group._reduce_scatter_base(output, summed[0], plain);
             });
}

TorchBackend::Work TorchBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  return Run(c10d::OpType::_REDUCE_SCATTER_BASE, "ddprun:reduce_scatter_tensor", inputs,
             [&](HostProcessGroup& group) {
               Tensors summed = inputs;
               const auto plain = Premultiplied(options, summed, false);
               return group.reduce_scatter_tensor_coalesced(outputs, summed, plain);
             });
}

TorchBackend::Work TorchBackend::alltoall_base(at::Tensor& output,
                                               at::Tensor& input,
                                               std::vector<int64_t>& output_splits,
                                               std::vector<int64_t>& input_splits,
                                               const c10d::AllToAllOptions& options) {
  return Run(c10d::OpType::ALLTOALL_BASE, "ddprun:all_to_all", {input},
             [&](HostProcessGroup& group) {
               return group.alltoall_base(output, input, output_splits, input_splits, options);
             });
}

TorchBackend::Work TorchBackend::alltoall(Tensors& outputs,
                                          Tensors& inputs,
                                          const c10d::AllToAllOptions& options) {
  return Run(c10d::OpType::ALLTOALL, "ddprun:all_to_all", inputs,
             [&](HostProcessGroup& group) { return group.alltoall(outputs, inputs, options); });
}

TorchBackend::Work TorchBackend::barrier(const c10d::BarrierOptions& options) {
  return Run(c10d::OpType::BARRIER, "ddprun:barrier", {},
             [&](HostProcessGroup& group) { return group.barrier(options); });
}

TorchBackend::Work TorchBackend::send(Tensors& tensors, int destination, int tag) {
  return Run(c10d::OpType::SEND, "ddprun:send", tensors,
             [&](HostProcessGroup& group) { return group.send(tensors, destination, tag); });
}

TorchBackend::Work TorchBackend::recv(Tensors& tensors, int source, int tag) {
  return Run(c10d::OpType::RECV, "ddprun:recv", tensors,
             [&](HostProcessGroup& group) { return group.recv(tensors, source, tag); });
}

TorchBackend::Work TorchBackend::recvAnysource(Tensors& tensors, int tag) {
  return Run(c10d::OpType::RECVANYSOURCE, "ddprun:recvAnySource", tensors,
             [&](HostProcessGroup& group) { return group.recvAnysource(tensors, tag); });
}

}  // namespace ddprun::python
