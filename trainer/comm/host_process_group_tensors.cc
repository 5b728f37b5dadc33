#include "trainer/comm/host_process_group_tensors.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/unflatten_dense_tensors.h>

#include <utility>

#include "base/failure.h"

namespace ddprun::trainer {

void RefuseTensor(const std::string& what, const std::string& hint) {
  throw Failure(Error{
      .title = "UNSUPPORTED TENSOR", .what = what, .hint = hint, .page = "unsupported-tensor"});
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
    case at::kChar:
      return DataType::kInt8;
    case at::kShort:
      return DataType::kInt16;
    case at::kBool:
      return DataType::kBool;
    default:
      RefuseTensor(
          "A reduction on host memory was given a tensor of type " +
              std::string(c10::toString(tensor.scalar_type())) + ".",
          "It takes float32, float64, float16, bfloat16, int8, int16, int32, int64, uint8 and "
          "bool.");
  }
}

Reduction ReductionOf(const c10d::ReduceOp& op, DataType type) {
  const bool floating = type == DataType::kFloat32 || type == DataType::kFloat64 ||
                        type == DataType::kFloat16 || type == DataType::kBFloat16;
  const bool boolean = type == DataType::kBool;  // a sum of bools is "any", a product is "all"
  switch (op) {
    case c10d::ReduceOp::SUM:
      return boolean ? Reduction::kMax : Reduction::kSum;
    case c10d::ReduceOp::AVG:
      if (!floating) RefuseTensor("Integers cannot be averaged.", "Use a sum and divide.");
      return Reduction::kAvg;
    case c10d::ReduceOp::MAX:
      return Reduction::kMax;
    case c10d::ReduceOp::MIN:
      return Reduction::kMin;
    case c10d::ReduceOp::PRODUCT:
      return boolean ? Reduction::kMin : Reduction::kProduct;
    case c10d::ReduceOp::BAND:
    case c10d::ReduceOp::BOR:
    case c10d::ReduceOp::BXOR:
      if (floating)
        RefuseTensor("Floating-point numbers have no bits to combine.", "Use integers.");
      if (op == c10d::ReduceOp::BAND) return Reduction::kBitAnd;
      return op == c10d::ReduceOp::BOR ? Reduction::kBitOr : Reduction::kBitXor;
    default:
      RefuseTensor("A collective was asked for a reduction that it does not have.",
                   "It has sum, avg, max, min, product, band, bor and bxor.");
  }
}

int RankOf(int64_t rank, int size) {
  if (rank >= 0 && rank < size) return static_cast<int>(rank);
  throw Failure(Error{.title = "NO SUCH RANK",
                      .what = "A collective was given rank " + std::to_string(rank) +
                              "; this group has ranks 0 to " + std::to_string(size - 1) + ".",
                      .hint = "Ranks are those of the group, not of the whole job.",
                      .page = "no-such-rank"});
}

void CheckOnHost(const at::Tensor& tensor) {
  if (tensor.device().is_cpu() && tensor.layout() == at::kStrided) return;
  const std::string found = tensor.layout() == at::kStrided
                                ? "on " + tensor.device().str()
                                : "with the layout " + c10::str(tensor.layout());
  RefuseTensor("A collective on host memory was given a tensor " + found + ".",
               "It takes dense tensors on the CPU.");
}

const at::Tensor& Single(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() != 1) {
    RefuseTensor("A collective was given " + std::to_string(tensors.size()) + " tensors.",
                 "Give one tensor per process.");
  }
  CheckOnHost(tensors[0]);
  return tensors[0];
}

const std::vector<at::Tensor>& OnePerRank(const std::vector<std::vector<at::Tensor>>& lists,
                                          const at::Tensor& like,
                                          int size,
                                          const std::string& operation) {
  if (lists.size() != 1 || lists[0].size() != static_cast<size_t>(size)) {
    RefuseTensor(operation + " needs one tensor per rank (" + std::to_string(size) + ").", "");
  }
  for (const at::Tensor& tensor : lists[0]) {
    CheckOnHost(tensor);
    if (tensor.numel() != like.numel() || tensor.dtype() != like.dtype()) {
      RefuseTensor(operation + " needs tensors with the same elements and type on every side.", "");
    }
  }
  return lists[0];
}

void CheckMultiple(const at::Tensor& many,
                   const at::Tensor& one,
                   int size,
                   const std::string& operation) {
  CheckOnHost(many);
  CheckOnHost(one);
  if (many.numel() == one.numel() * size && many.dtype() == one.dtype() && many.is_contiguous()) {
    return;
  }
  RefuseTensor(operation + " needs a contiguous tensor of " + std::to_string(size) +
                   " times the other's elements and of its type.",
               "");
}

void Unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors) {
  at::_foreach_copy_(tensors, at::unflatten_dense_tensors(packed, tensors));
}

void CopyBack(at::Tensor from, at::Tensor to) {
  for (int64_t dimension = 0; dimension < to.dim(); ++dimension) {
    if (to.stride(dimension) != 0 || to.size(dimension) < 2) continue;
    from = from.narrow(dimension, 0, 1);
    to = to.narrow(dimension, 0, 1);
  }
  to.copy_(from);
}

bool OnDevice(const std::vector<at::Tensor>& tensors) {
  return !tensors.empty() && !tensors[0].is_cpu();
}

namespace {

class StagedWork : public c10d::Work {
 public:
  StagedWork(std::vector<at::Tensor> tensors,
             std::vector<at::Tensor> staged,
             c10::intrusive_ptr<c10d::Work> work)
      : tensors_(std::move(tensors)), staged_(std::move(staged)), work_(std::move(work)) {}

  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  bool wait(std::chrono::milliseconds timeout) override {
    work_->wait(timeout);
    const at::NoGradGuard no_grad;
    if (staged_.empty()) return true;
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(staged_[i]);
    staged_.clear();
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }
  std::vector<at::Tensor> result() override { return tensors_; }

 private:
  const std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> staged_;  // empty after they are copied back
  const c10::intrusive_ptr<c10d::Work> work_;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> Staged(
    const std::vector<at::Tensor>& tensors,
    size_t written,
    bool async,
    const std::function<c10::intrusive_ptr<c10d::Work>(std::vector<at::Tensor>& host)>& start) {
  std::vector<at::Tensor> staged;
  for (const at::Tensor& tensor : tensors) staged.push_back(tensor.detach().cpu());
  auto started = start(staged);
  std::vector<at::Tensor> outputs(tensors.begin(), tensors.begin() + static_cast<long>(written));
  auto work = c10::make_intrusive<StagedWork>(std::move(outputs), staged, std::move(started));
  if (!async) work->wait(kNoTimeout);
  return work;
}

}  // namespace ddprun::trainer
