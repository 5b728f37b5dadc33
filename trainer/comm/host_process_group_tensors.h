// Checks the tensors of HostProcessGroup's operations, and maps them to bytes. Internal to
// HostProcessGroup.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "base/result.h"
#include "trainer/comm/data_type.h"

namespace ddprun::trainer {

// Throws Failure (page "unsupported-tensor").
[[noreturn]] void RefuseTensor(const std::string& what, const std::string& hint);

// These functions throw Failure if the collectives do not support the argument.
DataType TypeOf(const at::Tensor& tensor);
Reduction ReductionOf(const c10d::ReduceOp& op, DataType type);
// Returns `rank` as an int. Throws unless a group of `size` ranks has it.
int RankOf(int64_t rank, int size);
void CheckOnHost(const at::Tensor& tensor);
// Returns the only tensor of the list. Throws unless there is exactly one, on the host.
const at::Tensor& Single(const std::vector<at::Tensor>& tensors);
// Returns the only list of `lists`. Throws unless it has one tensor per rank, each with the type
// and number of elements of `like`.
const std::vector<at::Tensor>& OnePerRank(const std::vector<std::vector<at::Tensor>>& lists,
                                          const at::Tensor& like,
                                          int size,
                                          const std::string& operation);
// Throws unless `many` is contiguous, has the type of `one`, and has `size` times its elements.
void CheckMultiple(const at::Tensor& many,
                   const at::Tensor& one,
                   int size,
                   const std::string& operation);

// Copies the parts of `packed`, which at::flatten_dense_tensors has made, back into `tensors`.
void Unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors);

// Returns whether `tensors` are on a device. The group stages such tensors on the host.
bool OnDevice(const std::vector<at::Tensor>& tensors);
// Waits for the device and calls start() with copies of `tensors` on the host. wait() of the
// returned Work copies the first `written` tensors back, in the order of the current stream; only
// one thread may call it. If `async` is false, copies them back before it returns.
c10::intrusive_ptr<c10d::Work> Staged(
    const std::vector<at::Tensor>& tensors,
    size_t written,
    bool async,
    const std::function<c10::intrusive_ptr<c10d::Work>(std::vector<at::Tensor>& host)>& start);

// Copies `from` to `to`, which may be expanded: its equal elements share memory.
void CopyBack(at::Tensor from, at::Tensor to);

// Runs `operation` on the data of `tensor`. If the tensor is not contiguous, uses a contiguous copy
// and copies the result back.
template <typename Operation>
Status OnContiguous(const at::Tensor& tensor, const Operation& operation) {
  if (tensor.is_contiguous()) return operation(tensor.data_ptr());
  const at::Tensor copy = tensor.contiguous();
  DDPRUN_TRY(operation(copy.data_ptr()));
  CopyBack(copy, tensor);
  return {};
}

}  // namespace ddprun::trainer
