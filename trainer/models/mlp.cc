#include "trainer/models/mlp.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/relu.h>

#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/failure.h"

namespace ddprun::trainer {

namespace {

class Mlp final : public Model {
 public:
  explicit Mlp(const MlpOptions& options) : options_(options) {
    for (size_t i = 0; i + 1 < options.sizes.size(); ++i) {
      const int64_t in = options.sizes[i];
      const int64_t out = options.sizes[i + 1];
      const std::string name = "layers." + std::to_string(i);
      Layer layer{AddParameter(name + ".weight", {out, in}), AddParameter(name + ".bias", {out})};
      if (options.initialize) Initialize(layer, in);
      layers_.push_back(layer);
    }
  }

  at::Tensor Outputs(const Batch& batch) override {
    at::Tensor x = batch.inputs;
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (i > 0) x = Activate(x);
      x = at::linear(x, layers_[i].weight, layers_[i].bias);
    }
    return x;
  }

  at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) override {
    return at::mse_loss(outputs, batch.targets);
  }

  std::string ConfigJson() const override {
    static constexpr const char* kNames[] = {"none", "relu", "gelu"};
    const nlohmann::ordered_json config = {
        {"model_type", "mlp"},
        {"layer_sizes", options_.sizes},
        {"activation", kNames[static_cast<int>(options_.activation)]}};
    return config.dump(2) + "\n";
  }

 private:
  struct Layer {
    at::Tensor weight;  // [out, in]
    at::Tensor bias;
  };

  // torch.nn.Linear.reset_parameters, torch 2.11: kaiming_uniform_(weight, a=sqrt(5)), then the
  // bias; in Python's order of operations, since the bounds decide the bits.
  static void Initialize(Layer& layer, int64_t fan_in) {
    const at::NoGradGuard no_grad;
    const double root = std::sqrt(static_cast<double>(fan_in));
    const double gain = std::sqrt(2.0 / (1 + std::pow(std::sqrt(5.0), 2)));
    const double bound = std::sqrt(3.0) * (gain / root);
    layer.weight.uniform_(-bound, bound);
    layer.bias.uniform_(-1 / root, 1 / root);
  }

  at::Tensor Activate(const at::Tensor& x) const {
    switch (options_.activation) {
      case MlpOptions::Activation::kNone:
        return x;
      case MlpOptions::Activation::kRelu:
        return at::relu(x);
      case MlpOptions::Activation::kGelu:
        return at::gelu(x);
    }
    DDPRUN_CHECK(false);
  }

  const MlpOptions options_;
  std::vector<Layer> layers_;
};

}  // namespace

std::shared_ptr<Model> MakeMlp(const MlpOptions& options) {
  bool fits = options.sizes.size() >= 2;
  std::string sizes;
  for (const int64_t size : options.sizes) {
    fits = fits && size > 0;
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  }
  if (fits) return std::make_shared<Mlp>(options);
  throw Failure(Error{.code = Code::kUsage,
                      .title = "WRONG MODEL SIZE",
                      .where = "",
                      .what = "An mlp model was asked for with layer_sizes [" + sizes +
                              "]; at least two positive sizes were expected: input and output.",
                      .hint = "For example \"layer_sizes\": [10, 10, 5].",
                      .page = "model-size"});
}

}  // namespace ddprun::trainer
