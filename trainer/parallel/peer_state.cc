#include "trainer/parallel/peer_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <vector>

namespace ddprun::trainer {

namespace {

using PassBytes = HostProcessGroup::PassBytes;

// Passes numbers at once, in the visit, because later tensors may depend on them.
class PeerCopier final : public StateVisitor {
 public:
  PeerCopier(const PassBytes& pass, bool takes) : pass_(pass), takes_(takes) {}

 private:
  void VisitTensor(StateTensor tensor) override {
    if (tensor.flat) return;  // of a parameter that ranks divide
    const at::Tensor flat = tensor.tensor.detach().cpu().contiguous();
    pass_(flat.mutable_data_ptr(), flat.nbytes());
    if (takes_ && !flat.is_alias_of(tensor.tensor)) tensor.tensor.detach().copy_(flat);
  }
  void VisitNumber(const std::string& /*name*/, int64_t& number) override {
    pass_(&number, sizeof number);
  }

  const PassBytes& pass_;
  const bool takes_;
};

}  // namespace

void CopyState(HostProcessGroup& group, int giver, bool takes, const VisitState& owners) {
  const at::NoGradGuard no_grad;
  group.Stream(giver, takes, [&](const PassBytes& pass) {
    PeerCopier copier(pass, takes);
    owners(copier);
  });
}

void BroadcastState(c10d::Backend& group, const VisitState& owners) {
  const at::NoGradGuard no_grad;
  c10d::BroadcastOptions options;
  options.asyncOp = false;
  const PassBytes pass = [&](void* data, size_t bytes) {
    if (bytes == 0) return;
    std::vector<at::Tensor> tensors = {
        at::from_blob(data, {static_cast<int64_t>(bytes)}, at::kByte)};
    group.broadcast(tensors, options)->wait();
  };
  PeerCopier copier(pass, /*takes=*/group.getRank() > 0);
  owners(copier);
}

void VisitText(StateVisitor& visitor, const std::string& name, std::string& text) {
  auto bytes = static_cast<int64_t>(text.size());
  visitor.Number(name + ".bytes", bytes);
  text.resize(static_cast<size_t>(bytes));
  visitor.Tensor(name, at::from_blob(text.data(), {bytes}, at::kByte));
}

}  // namespace ddprun::trainer
