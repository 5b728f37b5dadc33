#include "trainer/parallel/peer_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <vector>

namespace ddprun::trainer {

namespace {

// Numbers come as their owners ask for them, since they tell what tensors there are.
class PeerCopier final : public StateVisitor {
 public:
  explicit PeerCopier(c10d::Backend& group) : group_(group) { options_.asyncOp = false; }

 private:
  void Copy(const at::Tensor& tensor) {
    std::vector<at::Tensor> tensors = {tensor.detach()};
    group_.broadcast(tensors, options_)->wait();
  }
  void VisitTensor(StateTensor tensor) override {
    if (tensor.tensor.numel() > 0) Copy(tensor.tensor);
  }
  void VisitNumber(const std::string& /*name*/, int64_t& number) override {
    const at::Tensor box = at::tensor({number}, at::kLong);
    Copy(box);
    number = box.item<int64_t>();
  }

  c10d::Backend& group_;
  c10d::BroadcastOptions options_;
};

}  // namespace

void CopyState(c10d::Backend& group, const VisitState& owners) {
  const at::NoGradGuard no_grad;
  PeerCopier copier(group);
  owners(copier);
}

}  // namespace ddprun::trainer
