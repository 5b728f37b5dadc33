#include <ATen/ops/empty.h>

#include <vector>

#include "trainer/strategies/stage_messages.h"

namespace ddprun::trainer {

namespace {

constexpr int kTag = 0;  // one tag is enough: messages between two ranks arrive in order

class HostMessages final : public StageMessages {
 public:
  explicit HostMessages(const Mesh& mesh) : mesh_(mesh) {}

  void Send(const at::Tensor& tensor, int stage) override {
    std::vector<at::Tensor> tensors = {tensor.contiguous()};
    mesh_.control->send(tensors, WorldRank(stage), kTag)->wait();
  }
  at::Tensor Receive(at::IntArrayRef sizes, const at::TensorOptions& options, int stage) override {
    std::vector<at::Tensor> tensors = {at::empty(sizes, options)};
    mesh_.control->recv(tensors, WorldRank(stage), kTag)->wait();
    return tensors[0];
  }

 private:
  // Returns the rank that has this rank's place on the other axes.
  int WorldRank(int stage) const {
    return mesh_.world.rank + (stage - mesh_.pipeline.rank) * mesh_.data.size * mesh_.tensor.size;
  }

  const Mesh mesh_;
};

}  // namespace

std::unique_ptr<StageMessages> MakeHostMessages(const Mesh& mesh) {
  return std::make_unique<HostMessages>(mesh);
}

}  // namespace ddprun::trainer
