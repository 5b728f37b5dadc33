#include "trainer/models/cnn.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "trainer/compute/operations.h"
#include "trainer/models/layers.h"

namespace ddprun::trainer {

namespace {

class Cnn final : public Model {
 public:
  explicit Cnn(const CnnOptions& options) : options_(options) {
    int64_t in = options.image[0];
    int64_t height = options.image[1];
    int64_t width = options.image[2];
    for (size_t i = 0; i < options.channels.size(); ++i) {
      const int64_t out = options.channels[i];
      const std::string name = "conv" + std::to_string(i + 1);
      stages_.push_back(
          {AddParameter(name + ".weight", {out, in, 3, 3}), AddParameter(name + ".bias", {out})});
      in = out;
      height /= 2;
      width /= 2;
    }
    fc1_ = AddLinear("fc1", in * height * width, options.hidden_size);
    fc2_ = AddLinear("fc2", options.hidden_size, options.num_labels);
  }

  void Initialize() override {
    const at::NoGradGuard no_grad;
    for (Affine& stage : stages_) InitializeAsTorch(stage.weight, stage.bias);
    InitializeAsTorch(fc1_.weight, fc1_.bias);
    InitializeAsTorch(fc2_.weight, fc2_.bias);
  }

  std::vector<Stage> Stages(const Batch& /*batch*/) const override {
    const auto images = [this](const at::Tensor& inputs) { return Images(inputs, options_.image); };
    std::vector<Stage> stages = {{{}, images}};
    for (size_t i = 0; i < stages_.size(); ++i) {
      const auto forward = [this, i](const at::Tensor& x) {
        return at::max_pool2d(at::relu(Convolution(x, stages_[i], /*stride=*/1, /*padding=*/1)), 2);
      };
      stages.push_back({{"conv" + std::to_string(i + 1)}, forward, /*is_block=*/true});
    }
    const auto head = [this](const at::Tensor& x) {
      const at::Tensor hidden = at::relu(Linear(x.flatten(1), fc1_));
      return Linear(DropElements(hidden, is_training() ? options_.dropout : 0), fc2_);
    };
    stages.push_back({{"fc1", "fc2"}, head});
    return stages;
  }

  std::string ConfigJson() const override {
    const nlohmann::ordered_json config = {{"model_type", "cnn"},
                                           {"image", options_.image},
                                           {"channels", options_.channels},
                                           {"hidden_size", options_.hidden_size},
                                           {"num_labels", options_.num_labels},
                                           {"dropout", options_.dropout}};
    return config.dump(2) + "\n";
  }

 private:
  const CnnOptions options_;
  std::vector<Affine> stages_;
  Affine fc1_;
  Affine fc2_;
};

}  // namespace

std::shared_ptr<Model> MakeCnn(const CnnOptions& options) {
  const auto positive = [](int64_t size) { return size > 0; };
  bool fits = options.image.size() == 3 && std::ranges::all_of(options.image, positive) &&
              std::ranges::all_of(options.channels, positive) && !options.channels.empty() &&
              options.channels.size() < 30 && options.hidden_size > 0 && options.num_labels > 0;
  if (fits) {
    const int64_t smaller = std::min(options.image[1], options.image[2]);
    fits = (smaller >> options.channels.size()) > 0;
  }
  if (!fits) {
    ThrowWrongSize("cnn", "images [" + FormatList(options.image) + "], channels [" +
                              FormatList(options.channels) + "] of which each halves the image, " +
                              std::to_string(options.hidden_size) + " hidden values and " +
                              std::to_string(options.num_labels) + " labels");
  }
  return std::make_shared<Cnn>(options);
}

}  // namespace ddprun::trainer
