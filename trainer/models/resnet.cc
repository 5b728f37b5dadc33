#include "trainer/models/resnet.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/compute/recompute.h"
#include "trainer/models/layers.h"

namespace ddprun::trainer {

namespace {

struct Architecture {
  int64_t depth;
  bool bottleneck;
  std::array<int, 4> blocks;  // of each of the four stages
};
constexpr std::array<Architecture, 4> kArchitectures = {{{18, false, {2, 2, 2, 2}},
                                                         {34, false, {3, 4, 6, 3}},
                                                         {50, true, {3, 4, 6, 3}},
                                                         {101, true, {3, 4, 23, 3}}}};

struct BatchNorm {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;
  at::Tensor batches;  // int64 []
};

// A convolution without bias, and the normalization after it.
struct Unit {
  at::Tensor weight;  // [out, in, k, k]
  BatchNorm norm;
  int64_t stride = 1;
};

struct ResNetBlock {
  std::string name;
  std::vector<Unit> units;
  std::vector<Unit> downsample;  // none or one: on the shortcut past the units
};

class ResNet final : public Model {
 public:
  ResNet(const ResNetOptions& options, const Architecture& architecture) : options_(options) {
    stem_ = AddUnit("conv1", "bn1", options.in_channels(), 64, 7, 2);
    int64_t in = 64;
    for (int stage = 0; stage < 4; ++stage) {
      const int64_t width = 64L << stage;
      for (int i = 0; i < architecture.blocks[stage]; ++i) {
        const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
        const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        blocks_.push_back(AddBlock(name, in, width, stride, architecture.bottleneck));
        in = architecture.bottleneck ? 4 * width : width;
      }
    }
    fc_ = AddLinear("fc", in, options.num_labels);
  }

  std::vector<Stage> Stages(const Batch& /*batch*/) const override {
    const auto stem = [this](const at::Tensor& inputs) {
      return at::max_pool2d(at::relu(Apply(stem_, Images(inputs, {}))), 3, 2, 1);
    };
    std::vector<Stage> stages = {{{"conv1", "bn1"}, stem}};
    for (const ResNetBlock& block : blocks_) {
      const auto forward = [&block, this](at::Tensor x) {
        const at::Tensor past = block.downsample.empty() ? x : Apply(block.downsample[0], x);
        for (size_t i = 0; i < block.units.size(); ++i) {
          if (i > 0) x = at::relu(x);
          x = Apply(block.units[i], x);
        }
        return at::relu(x + past);
      };
      stages.push_back({{block.name}, forward, /*is_block=*/true});
    }
    const auto head = [this](const at::Tensor& x) {
      return Linear(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1), fc_);
    };
    stages.push_back({{"fc"}, head});
    return stages;
  }

  std::string ConfigJson() const override {
    const nlohmann::ordered_json config = {
        {"model_type", "resnet" + std::to_string(options_.depth)},
        {"in_channels", options_.in_channels()},
        {"num_labels", options_.num_labels}};
    return config.dump(2) + "\n";
  }

  void Initialize() override {
    const at::NoGradGuard no_grad;
    for (auto& parameter : named_parameters()) {
      at::Tensor& value = parameter.value();
      if (value.dim() == 4) {
        KaimingNormalFanOut(value);
      } else if (parameter.key().ends_with("bias")) {
        value.zero_();
      } else if (value.dim() == 1) {
        value.fill_(1);
      }
    }
    InitializeAsTorch(fc_.weight, fc_.bias);
  }

  // The last layer may keep new weights, because published ones are for ImageNet's 1000 classes.
  bool MayBeMissingInFile(const std::string& parameter) const override {
    return parameter.starts_with("fc.");
  }
  void InitializeParameter(const std::string& /*parameter*/, at::Tensor& value) const override {
    const double bound = 1 / std::sqrt(static_cast<double>(FanIn(fc_.weight)));
    value.uniform_(-bound, bound);
  }

 private:
  Unit AddUnit(const std::string& conv,
               const std::string& norm,
               int64_t in,
               int64_t out,
               int64_t size,
               int64_t stride) {
    Unit unit;
    unit.weight = AddParameter(conv + ".weight", {out, in, size, size});
    unit.norm.weight = AddParameter(norm + ".weight", {out});
    unit.norm.bias = AddParameter(norm + ".bias", {out});
    unit.norm.running_mean = AddBuffer(norm + ".running_mean", at::zeros({out}));
    unit.norm.running_var = AddBuffer(norm + ".running_var", at::ones({out}));
    unit.norm.batches = AddBuffer(norm + ".num_batches_tracked", at::zeros({}, at::kLong));
    unit.stride = stride;
    return unit;
  }

  // As in torchvision, the stride of a bottleneck is in its 3x3 convolution.
  ResNetBlock AddBlock(
      const std::string& name, int64_t in, int64_t width, int64_t stride, bool bottleneck) {
    const auto add = [&](int index, int64_t from, int64_t to, int64_t size, int64_t step) {
      const std::string number = std::to_string(index);
      return AddUnit(name + ".conv" + number, name + ".bn" + number, from, to, size, step);
    };
    const int64_t out = bottleneck ? 4 * width : width;
    ResNetBlock block;
    block.name = name;
    if (bottleneck) {
      block.units.push_back(add(1, in, width, 1, 1));
      block.units.push_back(add(2, width, width, 3, stride));
      block.units.push_back(add(3, width, out, 1, 1));
    } else {
      block.units.push_back(add(1, in, width, 3, stride));
      block.units.push_back(add(2, width, width, 3, 1));
    }
    if (stride != 1 || in != out) {
      block.downsample.push_back(
          AddUnit(name + ".downsample.0", name + ".downsample.1", in, out, 1, stride));
    }
    return block;
  }

  at::Tensor Apply(const Unit& unit, const at::Tensor& x) const {
    const int64_t padding = unit.weight.size(2) / 2;
    const at::Tensor y = Convolution(x, {unit.weight, {}}, unit.stride, padding);
    const BatchNorm& norm = unit.norm;
    // The running means count every batch once, so recomputation does not change them.
    const bool counts = is_training() && !IsRecomputing();
    if (counts) {
      const at::NoGradGuard no_grad;
      at::Tensor(norm.batches).add_(1);
    }
    const bool keeps = counts || !is_training();
    return at::batch_norm(y, norm.weight, norm.bias, keeps ? norm.running_mean : at::Tensor(),
                          keeps ? norm.running_var : at::Tensor(), is_training(),
                          /*momentum=*/0.1, /*eps=*/1e-5, /*cudnn_enabled=*/true);
  }

  const ResNetOptions options_;
  Unit stem_;
  std::vector<ResNetBlock> blocks_;
  Affine fc_;
};

}  // namespace

std::shared_ptr<Model> MakeResNet(const ResNetOptions& options) {
  const auto* known = std::ranges::find(kArchitectures, options.depth, &Architecture::depth);
  if (known == kArchitectures.end() || options.in_channels() < 1 || options.num_labels < 1) {
    ThrowWrongSize("resnet", std::to_string(options.depth) + " layers (18, 34, 50 or 101), " +
                                 std::to_string(options.in_channels()) + " input channels and " +
                                 std::to_string(options.num_labels) + " labels");
  }
  return std::make_shared<ResNet>(options, *known);
}

}  // namespace ddprun::trainer
