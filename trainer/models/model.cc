#include "trainer/models/model.h"

#include <ATen/ops/empty.h>

#include <memory>
#include <string_view>

namespace ddprun::trainer {

at::Tensor Model::AddParameter(const std::string& dotted_name, at::IntArrayRef sizes) {
  torch::nn::Module* scope = this;
  std::string_view rest = dotted_name;
  for (size_t dot = rest.find('.'); dot != rest.npos; dot = rest.find('.')) {
    const std::string name(rest.substr(0, dot));
    rest.remove_prefix(dot + 1);
    const auto children = scope->named_children();
    const auto* child = children.find(name);
    scope = child != nullptr
                ? child->get()
                : scope->register_module(name, std::make_shared<torch::nn::Module>()).get();
  }
  return scope->register_parameter(std::string(rest), at::empty(sizes, at::kFloat));
}

int64_t ParameterCount(const Model& model) {
  int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

}  // namespace ddprun::trainer
