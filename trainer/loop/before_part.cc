#include "trainer/loop/before_part.h"

#include <functional>
#include <string>
#include <utility>

namespace ddprun::trainer {

namespace {

class SmallState final : public StateVisitor {
 public:
  std::function<void(const at::Tensor& tensor)> on_tensor;
  std::function<void(int64_t& number)> on_number;

 private:
  void VisitTensor(StateTensor tensor) override {
    const std::string& name = tensor.name;
    if (name.starts_with("model.") || name.starts_with("optimizer.")) return;
    on_tensor(tensor.tensor.detach());
  }
  void VisitNumber(const std::string& /*name*/, int64_t& number) override { on_number(number); }
};

}  // namespace

BeforePart::BeforePart(std::vector<at::Tensor> buffers, VisitState state)
    : buffers_(std::move(buffers)), state_(std::move(state)) {
  for (const at::Tensor& buffer : buffers_) values_.push_back(buffer.clone());
  SmallState visitor;
  visitor.on_tensor = [&](const at::Tensor& tensor) { tensors_.push_back(tensor.clone()); };
  visitor.on_number = [&](int64_t& number) { numbers_.push_back(number); };
  state_(visitor);
}

void BeforePart::PutBack() const {
  for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(values_[i]);
  SmallState visitor;
  visitor.on_tensor = [next = tensors_.begin()](const at::Tensor& tensor) mutable {
    tensor.copy_(*next++);
  };
  visitor.on_number = [next = numbers_.begin()](int64_t& number) mutable { number = *next++; };
  state_(visitor);
}

}  // namespace ddprun::trainer
