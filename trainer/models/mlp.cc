#include "trainer/models/mlp.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/failure.h"
#include "base/text.h"
#include "trainer/config/slot.h"
#include "trainer/models/layers.h"

namespace ddprun::trainer {

namespace {

class Mlp final : public Model {
 public:
  explicit Mlp(const MlpOptions& options) : options_(options) {
    for (size_t i = 0; i + 1 < options.sizes.size(); ++i) {
      const int64_t in = options.sizes[i];
      const int64_t out = options.sizes[i + 1];
      const std::string name = "layers." + std::to_string(i);
      // Splits layers in pairs: the second one of a pair takes the first one's part of the outputs
      // as its part of the inputs.
      const bool last = i + 2 == options.sizes.size();
      const bool few = axis() != nullptr && out < axis()->size();
      const Split odd_one = few ? Split::kNone : Split::kGathered;
      const Split split = i % 2 == 1 ? Split::kInputs : last ? odd_one : Split::kOutputs;
      layers_.push_back(AddLinear(name, in, out, {.split = split}));
    }
  }

  void Initialize() override {
    const at::NoGradGuard no_grad;
    for (Affine& layer : layers_) InitializeAsTorch(layer.weight, layer.bias);
  }

  std::vector<Stage> Stages(const Batch& /*batch*/) const override {
    std::vector<Stage> stages;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const auto forward = [this, i](const at::Tensor& x) {
        const at::Tensor in = i > 0 ? Activate(x) : x.dim() > 2 ? x.flatten(1) : x;  // images
        return Linear(in, layers_[i]);
      };
      stages.push_back({{"layers." + std::to_string(i)}, forward, /*is_block=*/i > 0});
    }
    return stages;
  }

  std::string ConfigJson() const override {
    const nlohmann::ordered_json config = {{"model_type", "mlp"},
                                           {"layer_sizes", options_.sizes},
                                           {"activation", Word(options_.activation)}};
    return config.dump(2) + "\n";
  }

 private:
  at::Tensor Activate(const at::Tensor& x) const {
    switch (options_.activation) {
      case Activation::kNone:
        return x;
      case Activation::kRelu:
        return at::relu(x);
      case Activation::kGelu:
        return at::gelu(x);
    }
    DDPRUN_CHECK(false);
  }

  const MlpOptions options_;
  std::vector<Affine> layers_;
};

}  // namespace

std::shared_ptr<Model> MakeMlp(const MlpOptions& options) {
  const std::vector<int64_t>& sizes = options.sizes;
  const bool positive = std::ranges::all_of(sizes, [](int64_t size) { return size > 0; });
  if (positive && sizes.size() >= 2) return std::make_shared<Mlp>(options);
  throw Failure(Error{.code = Code::kUsage,
                      .title = "WRONG MODEL SIZE",
                      .what = "An mlp model was asked for with layer_sizes [" + FormatList(sizes) +
                              "]; at least two positive sizes were expected: input and output.",
                      .hint = "For example \"layer_sizes\": [10, 10, 5].",
                      .page = "model-size"});
}

}  // namespace ddprun::trainer
