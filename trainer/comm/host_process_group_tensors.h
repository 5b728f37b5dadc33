// Internal to HostProcessGroup: what tensors its operations take, and how they see them as bytes.
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

// These throw for what the collectives cannot do.
DataType TypeOf(const at::Tensor& tensor);
Reduction ReductionOf(const c10d::ReduceOp& op, DataType type);
// A rank of a group of `size` ranks.
int RankOf(int64_t rank, int size);
void CheckOnHost(const at::Tensor& tensor);
// The only tensor of a list, on the host.
const at::Tensor& Single(const std::vector<at::Tensor>& tensors);
// The only list of a list of lists: one tensor of `like`'s type and number of elements per rank.
const std::vector<at::Tensor>& OnePerRank(const std::vector<std::vector<at::Tensor>>& lists,
                                          const at::Tensor& like,
                                          int size,
                                          const std::string& operation);
// Throws unless `many` has `size` times the elements of `one`, its type, and no gaps.
void CheckMultiple(const at::Tensor& many,
                   const at::Tensor& one,
                   int size,
                   const std::string& operation);

// What at::flatten_dense_tensors has put together, back into the tensors.
void Unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors);

// Whether they are on a device; then they go by the host.
bool OnDevice(const std::vector<at::Tensor>& tensors);
// Waits for the device, calls start() with copies on the host, and copies the values of the first
// `written` back in wait(): into the current stream's order, one thread. Not `async`: before it
// returns.
c10::intrusive_ptr<c10d::Work> Staged(
    const std::vector<at::Tensor>& tensors,
    size_t written,
    bool async,
    const std::function<c10::intrusive_ptr<c10d::Work>(std::vector<at::Tensor>& host)>& start);

// Runs `operation` on the data of `tensor`, through a contiguous copy where it has gaps.
template <typename Operation>
Status OnContiguous(const at::Tensor& tensor, const Operation& operation) {
  if (tensor.is_contiguous()) return operation(tensor.data_ptr());
  const at::Tensor copy = tensor.contiguous();
  DDPRUN_TRY(operation(copy.data_ptr()));
  tensor.copy_(copy);
  return {};
}

}  // namespace ddprun::trainer
