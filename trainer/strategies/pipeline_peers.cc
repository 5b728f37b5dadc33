#include "trainer/strategies/pipeline_peers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <utility>
#include <vector>

#include "base/check.h"
#include "trainer/parallel/stopwatch.h"

namespace ddprun::trainer {

namespace {

constexpr int kTag = 0;  // one tag is enough: messages between two ranks arrive in order
constexpr int64_t kMostDimensions = 8;

void SendTensor(c10d::Backend& group, const at::Tensor& tensor, int to) {
  std::vector<at::Tensor> tensors = {tensor.contiguous()};
  group.send(tensors, to, kTag)->wait();
}

at::Tensor ReceiveTensor(c10d::Backend& group,
                         at::IntArrayRef sizes,
                         const at::TensorOptions& options,
                         int from) {
  std::vector<at::Tensor> tensors = {at::empty(sizes, options)};
  group.recv(tensors, from, kTag)->wait();
  return tensors[0];
}

}  // namespace

void PipelinePeers::SendForward(const at::Tensor& x) const {
  std::vector<int64_t> shape = {static_cast<int64_t>(x.scalar_type()), x.dim()};
  DDPRUN_CHECK(x.dim() <= kMostDimensions);
  shape.insert(shape.end(), x.sizes().begin(), x.sizes().end());
  shape.resize(kMostDimensions + 2);
  const int next = WorldRank(mesh_.pipeline.rank + 1);
  SendTensor(*mesh_.control, at::tensor(shape, at::kLong), next);
  SendTensor(*mesh_.control, x, next);
}

at::Tensor PipelinePeers::ReceiveForward() {
  const Stopwatch stopwatch(waited_seconds_);
  const int before = WorldRank(mesh_.pipeline.rank - 1);
  const at::Tensor shape = ReceiveTensor(*mesh_.control, {kMostDimensions + 2}, at::kLong, before);
  const auto* numbers = shape.const_data_ptr<int64_t>();
  return ReceiveTensor(*mesh_.control, {numbers + 2, static_cast<size_t>(numbers[1])},
                       at::device(mesh_.device).dtype(static_cast<at::ScalarType>(numbers[0])),
                       before);
}

void PipelinePeers::Send(const at::Tensor& gradient, int stage) const {
  SendTensor(*mesh_.control, gradient, WorldRank(stage));
}

at::Tensor PipelinePeers::Receive(const at::Tensor& like, int stage) {
  const Stopwatch stopwatch(waited_seconds_);
  return ReceiveTensor(*mesh_.control, like.sizes(), like.options(), WorldRank(stage));
}

double PipelinePeers::TakeWaitedSeconds() {
  return std::exchange(waited_seconds_, 0);
}

}  // namespace ddprun::trainer
