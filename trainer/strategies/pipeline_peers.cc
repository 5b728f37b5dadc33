#include "trainer/strategies/pipeline_peers.h"

#include <ATen/ops/tensor.h>

#include <utility>
#include <vector>

#include "base/check.h"
#include "trainer/parallel/stopwatch.h"

namespace ddprun::trainer {

namespace {

constexpr int64_t kMostDimensions = 8;

}  // namespace

PipelinePeers::PipelinePeers(const Mesh& mesh)
    : mesh_(mesh),
      host_(MakeHostMessages(mesh)),
      devices_(mesh.later.group == mesh.later.host ? nullptr : MakeDeviceMessages(mesh)) {}

void PipelinePeers::SendForward(const at::Tensor& x) const {
  std::vector<int64_t> shape = {static_cast<int64_t>(x.scalar_type()), x.dim()};
  DDPRUN_CHECK(x.dim() <= kMostDimensions);
  shape.insert(shape.end(), x.sizes().begin(), x.sizes().end());
  shape.resize(kMostDimensions + 2);
  const int next = mesh_.pipeline.rank + 1;
  host_->Send(at::tensor(shape, at::kLong), next);
  tensors().Send(x, next);
}

at::Tensor PipelinePeers::ReceiveForward() {
  const Stopwatch stopwatch(waited_seconds_);
  const int before = mesh_.pipeline.rank - 1;
  const at::Tensor shape = host_->Receive({kMostDimensions + 2}, at::kLong, before);
  const auto* numbers = shape.const_data_ptr<int64_t>();
  return tensors().Receive({numbers + 2, static_cast<size_t>(numbers[1])},
                           at::device(mesh_.device).dtype(static_cast<at::ScalarType>(numbers[0])),
                           before);
}

at::Tensor PipelinePeers::Receive(const at::Tensor& like, int stage) {
  const Stopwatch stopwatch(waited_seconds_);
  return tensors().Receive(like.sizes(), like.options(), stage);
}

double PipelinePeers::TakeWaitedSeconds() {
  const double waited = std::exchange(waited_seconds_, 0);
  return devices_ ? -1 : waited;
}

}  // namespace ddprun::trainer
