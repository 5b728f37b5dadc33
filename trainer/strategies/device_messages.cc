// Messages by the groups between devices (NCCL).
//
// Why no stage waits for ever. A group between devices runs what two ranks send each other in the
// order in which each of them queued it, and a send ends only when its receiver has come. If both
// directions went over one group, two neighbours that send first, as with 1F1B, would wait for each
// other. So messages to later stages have one group, and messages to earlier stages another one,
// and each group has a communicator and a stream for each two ranks (it is not connected as a
// whole). Then a message waits for three things: the sender's computation of the tensor; the
// receiver, which queues the receive right before its next action; earlier messages of the same
// sender to the same receiver. No action waits for a send. Thus, in any schedule that ends where
// sends do not wait, each message can take place at the moment at which its receiver begins the
// action that needs it; the earlier messages of the pair have then taken place, because actions
// receive in the order in which they were sent.
//
// The first message between two ranks connects them, for which the host waits. The constructor
// connects neighbours, so that a schedule meets no such wait.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <deque>
#include <utility>
#include <vector>

#include "trainer/strategies/stage_messages.h"

namespace ddprun::trainer {

namespace {

constexpr int kNoTag = 0;  // groups between devices have none

// LibTorch warns that a group has a communicator for each two ranks, as it should.
class NoWarnings final : public c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

class DeviceMessages final : public StageMessages {
 public:
  explicit DeviceMessages(const Mesh& mesh)
      : mesh_(mesh),
        device_(mesh.device.type()),
        receiving_(device_.getStreamFromGlobalPool(mesh.device)) {
    NoWarnings handler;
    const c10::WarningUtils::WarningHandlerGuard guard(&handler);
    const int own = mesh.pipeline.rank;
    const auto options = at::device(mesh.device).dtype(at::kFloat);
    const at::Tensor one = at::zeros({1}, options);
    const auto exchange = [&](int from, int to) {
      if (from >= 0 && from < mesh.pipeline.size) Receive({1}, options, from);
      if (to >= 0 && to < mesh.pipeline.size) Send(one, to);
    };
    exchange(own - 1, own + 1);
    exchange(own + 1, own - 1);
    WaitForSends();
  }

  void Send(const at::Tensor& tensor, int stage) override {
    while (!sent_.empty() && sent_.front()->isCompleted()) sent_.pop_front();
    std::vector<at::Tensor> tensors = {tensor.contiguous()};
    const Axis& way = stage > mesh_.pipeline.rank ? mesh_.later : mesh_.earlier;
    sent_.push_back(way.group->send(tensors, stage, kNoTag));
  }

  // Receives on a stream on which nothing else runs, so that the message need not wait for what is
  // computed before it is used.
  at::Tensor Receive(at::IntArrayRef sizes, const at::TensorOptions& options, int stage) override {
    const c10::Stream computing = device_.getStream(mesh_.device);
    std::vector<at::Tensor> tensors;
    c10::intrusive_ptr<c10d::Work> received;
    {
      const c10::StreamGuard guard(receiving_);
      tensors = {at::empty(sizes, options)};
      const Axis& way = stage < mesh_.pipeline.rank ? mesh_.later : mesh_.earlier;
      received = way.group->recv(tensors, stage, kNoTag);
    }
    received->wait();
    // Its memory belongs to the stream of receives, which must not use it again before this one is
    // done.
    tensors[0].record_stream(computing);
    return tensors[0];
  }

  void WaitForSends() override {
    for (const auto& work : std::exchange(sent_, {})) work->wait();
  }

 private:
  const Mesh mesh_;
  const c10::impl::VirtualGuardImpl device_;
  const c10::Stream receiving_;
  std::deque<c10::intrusive_ptr<c10d::Work>> sent_;  // they keep their tensors
};

}  // namespace

std::unique_ptr<StageMessages> MakeDeviceMessages(const Mesh& mesh) {
  return std::make_unique<DeviceMessages>(mesh);
}

}  // namespace ddprun::trainer
