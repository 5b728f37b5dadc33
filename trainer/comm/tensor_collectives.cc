#include <ATen/ops/empty.h>
#include <ATen/ops/flatten_dense_tensors.h>

#include <algorithm>

#include <ddprun/tensor_collectives.h>
#include "trainer/comm/host_process_group_core.h"
#include "trainer/comm/host_process_group_tensors.h"
#include "trainer/comm/host_process_group_works.h"

namespace ddprun {

using namespace trainer;  // NOLINT: the internals of this library

namespace {

using Tensors = std::vector<at::Tensor>;

// Returns an empty flat tensor for one tensor like `like` from every rank.
at::Tensor RoomForAll(const at::Tensor& like, int size) {
  return at::empty({size * like.numel()}, like.options());
}

void CheckPairs(const Tensors& outputs, const Tensors& inputs, const std::string& operation) {
  if (outputs.size() == inputs.size()) return;
  RefuseTensor(operation + " was given " + std::to_string(outputs.size()) + " outputs and " +
                   std::to_string(inputs.size()) + " inputs.",
               "Give one output for each input.");
}

// Returns the bytes to or from each rank. `splits` counts elements along dimension 0.
std::vector<size_t> PartBytes(const at::Tensor& tensor,
                              const std::vector<int64_t>& splits,
                              int size) {
  const auto n = static_cast<size_t>(size);
  const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  std::vector<int64_t> counts = splits;
  if (counts.empty()) counts.assign(n, rows / size);
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  const bool negative = std::ranges::any_of(counts, [](int64_t count) { return count < 0; });
  if (counts.size() != n || total != rows || negative) {
    RefuseTensor(std::string("all_to_all was given splits that ") +
                     (negative ? "are negative or " : "") +
                     "do not add up to the tensor's first dimension (" + std::to_string(rows) +
                     ") over " + std::to_string(size) + " ranks.",
                 "");
  }
  std::vector<size_t> bytes;
  for (const int64_t count : counts) {
    bytes.push_back(
        rows == 0 ? 0 : tensor.nbytes() / static_cast<size_t>(rows) * static_cast<size_t>(count));
  }
  return bytes;
}

}  // namespace

TensorCollectives::Work TensorCollectives::Run(c10d::OpType type,
                                               bool async,
                                               Tensors outputs,
                                               OperationQueue::Function run) {
  return StartCollective(core_, getGroupDesc(), type, async, std::move(outputs), std::move(run));
}

TensorCollectives::Work TensorCollectives::allreduce(Tensors& tensors,
                                                     const c10d::AllreduceOptions& options) {
  if (OnDevice(tensors)) {
    return Staged(tensors, tensors.size(), options.asyncOp,
                  [&](Tensors& host) { return allreduce(host, options); });
  }
  // Not a case of allreduce_coalesced, because a small all-reduce takes about a microsecond.
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

TensorCollectives::Work TensorCollectives::allreduce_coalesced(
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

TensorCollectives::Work TensorCollectives::broadcast(Tensors& tensors,
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

TensorCollectives::Work TensorCollectives::reduce(Tensors& tensors,
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
               if (core->group.rank() == root && !data.is_same(tensor)) CopyBack(data, tensor);
               return {};
             });
}

void TensorCollectives::monitoredBarrier(const c10d::BarrierOptions& options,
                                         bool /*wait_all_ranks*/) {
  barrier(options)->wait();
}

TensorCollectives::Work TensorCollectives::barrier(const c10d::BarrierOptions& options) {
  return Run(c10d::OpType::BARRIER, options.asyncOp, {},
             [core = core_.get(), timeout = options.timeout] {
               return core->group.Barrier(core->Deadline(timeout));
             });
}

TensorCollectives::Work TensorCollectives::_allgather_base(at::Tensor& output,
                                                           at::Tensor& input,
                                                           const c10d::AllgatherOptions& options) {
  if (OnDevice({output})) {
    return Staged({output, input}, 1, options.asyncOp,
                  [&](Tensors& host) { return _allgather_base(host[0], host[1], options); });
  }
  Tensors outputs = {output};
  Tensors inputs = {input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

TensorCollectives::Work TensorCollectives::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  CheckPairs(outputs, inputs, "all_gather");
  Tensors flat;
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckMultiple(outputs[i], inputs[i], getSize(), "all_gather");
    flat.push_back(inputs[i].contiguous());
  }
  return Run(c10d::OpType::_ALLGATHER_BASE, options.asyncOp, outputs,
             [core = core_.get(), outputs, flat, timeout = options.timeout]() -> Status {
               for (size_t i = 0; i < flat.size(); ++i) {
                 DDPRUN_TRY(core->group.AllGather(flat[i].data_ptr(), outputs[i].data_ptr(),
                                                  flat[i].nbytes(), core->Deadline(timeout)));
               }
               return {};
             });
}

TensorCollectives::Work TensorCollectives::allgather(std::vector<Tensors>& outputs,
                                                     Tensors& inputs,
                                                     const c10d::AllgatherOptions& options) {
  const at::Tensor input = Single(inputs);
  std::vector<Tensors> by_rank;
  for (const at::Tensor& output : OnePerRank(outputs, input, getSize(), "all_gather")) {
    by_rank.push_back({output});
  }
  return allgather_coalesced(by_rank, inputs, options);
}

TensorCollectives::Work TensorCollectives::allgather_coalesced(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  Tensors flat;
  std::vector<Tensors> rows;  // for each input, its output from every rank
  Tensors all;
  for (const Tensors& from_rank : outputs) {
    CheckPairs(from_rank, inputs, "all_gather");
    all.insert(all.end(), from_rank.begin(), from_rank.end());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckOnHost(inputs[i]);
    std::vector<Tensors> row(1);
    for (const Tensors& from_rank : outputs) row[0].push_back(from_rank[i]);
    rows.push_back(OnePerRank(row, inputs[i], getSize(), "all_gather"));
    flat.push_back(inputs[i].contiguous());
  }
  return Run(
      c10d::OpType::ALLGATHER, options.asyncOp, all,
      [core = core_.get(), flat, rows, size = getSize(), timeout = options.timeout]() -> Status {
        for (size_t i = 0; i < flat.size(); ++i) {
          const at::Tensor room = RoomForAll(flat[i], size);
          DDPRUN_TRY(core->group.AllGather(flat[i].data_ptr(), room.data_ptr(), flat[i].nbytes(),
                                           core->Deadline(timeout)));
          Unpack(room, rows[i]);
        }
        return {};
      });
}

TensorCollectives::Work TensorCollectives::gather(std::vector<Tensors>& outputs,
                                                  Tensors& inputs,
                                                  const c10d::GatherOptions& options) {
  const at::Tensor input = Single(inputs).contiguous();
  const int root = RankOf(options.rootRank, getSize());
  Tensors out;
  if (getRank() == root) out = OnePerRank(outputs, input, getSize(), "gather");
  return Run(c10d::OpType::GATHER, options.asyncOp, out,
             [core = core_.get(), input, out, root, size = getSize(),
              timeout = options.timeout]() -> Status {
               const at::Tensor all = RoomForAll(input, out.empty() ? 0 : size);
               DDPRUN_TRY(core->group.Gather(input.data_ptr(), all.data_ptr(), input.nbytes(), root,
                                             core->Deadline(timeout)));
               if (!out.empty()) Unpack(all, out);
               return {};
             });
}

TensorCollectives::Work TensorCollectives::scatter(Tensors& outputs,
                                                   std::vector<Tensors>& inputs,
                                                   const c10d::ScatterOptions& options) {
  const at::Tensor output = Single(outputs);
  const int root = RankOf(options.rootRank, getSize());
  at::Tensor all;
  if (getRank() == root)
    all = at::flatten_dense_tensors(OnePerRank(inputs, output, getSize(), "scatter"));
  return Run(c10d::OpType::SCATTER, options.asyncOp, outputs,
             [core = core_.get(), output, all, root, timeout = options.timeout] {
               return OnContiguous(output, [&](void* data) {
                 return core->group.Scatter(all.defined() ? all.data_ptr() : nullptr, data,
                                            output.nbytes(), root, core->Deadline(timeout));
               });
             });
}

TensorCollectives::Work TensorCollectives::reduce_scatter(
    Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) {
  Tensors packed = {
      at::flatten_dense_tensors(OnePerRank(inputs, Single(outputs), getSize(), "reduce_scatter"))};
  return reduce_scatter_tensor_coalesced(outputs, packed, options);
}

TensorCollectives::Work TensorCollectives::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  if (OnDevice({output})) {
    return Staged({output, input}, 1, options.asyncOp,
                  [&](Tensors& host) { return _reduce_scatter_base(host[0], host[1], options); });
  }
  Tensors outputs = {output};
  Tensors inputs = {input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

TensorCollectives::Work TensorCollectives::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  CheckPairs(outputs, inputs, "reduce_scatter");
  Tensors flat;
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckOnHost(inputs[i]);
    flat.push_back(inputs[i].contiguous());
    CheckMultiple(flat[i], outputs[i], getSize(), "reduce_scatter");
    ReductionOf(options.reduceOp, TypeOf(flat[i]));
  }
  return Run(c10d::OpType::_REDUCE_SCATTER_BASE, options.asyncOp, outputs,
             [core = core_.get(), outputs, flat, op = options.reduceOp,
              timeout = options.timeout]() -> Status {
               for (size_t i = 0; i < flat.size(); ++i) {
                 const DataType type = TypeOf(flat[i]);
                 DDPRUN_TRY(OnContiguous(outputs[i], [&](void* data) {
                   return core->group.ReduceScatter(flat[i].data_ptr(), data,
                                                    static_cast<size_t>(outputs[i].numel()), type,
                                                    ReductionOf(op, type), core->Deadline(timeout));
                 }));
               }
               return {};
             });
}

TensorCollectives::Work TensorCollectives::alltoall_base(at::Tensor& output,
                                                         at::Tensor& input,
                                                         std::vector<int64_t>& output_splits,
                                                         std::vector<int64_t>& input_splits,
                                                         const c10d::AllToAllOptions& options) {
  if (OnDevice({output})) {
    return Staged({output, input}, 1, options.asyncOp, [&](Tensors& host) {
      return alltoall_base(host[0], host[1], output_splits, input_splits, options);
    });
  }
  CheckOnHost(output);
  CheckOnHost(input);
  if (output.dtype() != input.dtype()) RefuseTensor("all_to_all needs tensors of one type.", "");
  const std::vector<size_t> send = PartBytes(input, input_splits, getSize());
  const std::vector<size_t> receive = PartBytes(output, output_splits, getSize());
  const bool equal = output_splits.empty() && input_splits.empty();
  if (equal && output.numel() != input.numel()) {
    RefuseTensor("all_to_all without splits needs tensors of one size.", "Give splits.");
  }
  return Run(c10d::OpType::ALLTOALL_BASE, options.asyncOp, {output},
             [core = core_.get(), output, in = input.contiguous(), send, receive, equal,
              timeout = options.timeout] {
               return OnContiguous(output, [&](void* data) {
                 const Clock::time_point deadline = core->Deadline(timeout);
                 if (equal) return core->group.AllToAll(in.data_ptr(), data, send[0], deadline);
                 return core->group.AllToAllV(in.data_ptr(), send, data, receive, deadline);
               });
             });
}

TensorCollectives::Work TensorCollectives::alltoall(Tensors& outputs,
                                                    Tensors& inputs,
                                                    const c10d::AllToAllOptions& options) {
  const auto n = static_cast<size_t>(getSize());
  if (outputs.size() != n || inputs.size() != n) {
    RefuseTensor("all_to_all needs one input and one output per rank (" + std::to_string(n) + ").",
                 "");
  }
  std::vector<size_t> send;
  std::vector<size_t> receive;
  int64_t elements = 0;
  for (size_t rank = 0; rank < n; ++rank) {
    CheckOnHost(inputs[rank]);
    CheckOnHost(outputs[rank]);
    send.push_back(inputs[rank].nbytes());
    receive.push_back(outputs[rank].nbytes());
    elements += outputs[rank].numel();
  }
  return Run(c10d::OpType::ALLTOALL, options.asyncOp, outputs,
             [core = core_.get(), in = at::flatten_dense_tensors(inputs), outputs, send, receive,
              elements, timeout = options.timeout]() -> Status {
               const at::Tensor all = at::empty({elements}, outputs[0].options());
               DDPRUN_TRY(core->group.AllToAllV(in.data_ptr(), send, all.data_ptr(), receive,
                                                core->Deadline(timeout)));
               Unpack(all, outputs);
               return {};
             });
}

}  // namespace ddprun
