// Does what its options say: {"fault": "throw"}.
#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include <nlohmann/json.hpp>

#include <ddprun/plugin.h>

namespace {

using ddprun::Batch;
using ddprun::MetricSum;
using ddprun::PluginDataOptions;
using ddprun::PluginModelOptions;

// Ends the process, or leaves it in a state from which later calls suffer.
void Harm(const std::string& fault) {
  if (fault.ends_with("crash")) *const_cast<volatile int*>(static_cast<int*>(nullptr)) = 1;
  if (fault.ends_with("exit")) exit(0);
  if (fault.ends_with("thread")) std::thread([] { pause(); }).detach();
  // So large that LibTorch takes several threads.
  if (fault.ends_with("parallel")) at::ones({1 << 20}).mul(2);
}

// Its gradient cannot be computed.
struct Untrainable : torch::autograd::Function<Untrainable> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& value) {
    return value.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw std::logic_error("this layer has no gradient");
  }
};

std::string FaultOf(const std::string& json) {
  return nlohmann::json::parse(json).value("fault", "");
}

class Line final : public ddprun::PluginModel {
 public:
  explicit Line(const PluginModelOptions& options) : fault_(FaultOf(options.json)) {
    if (fault_ == "throw in constructor") throw std::runtime_error("no such layer: attention");
    if (fault_ == "no parameter") return;
    const auto type = fault_ == "integer parameter" ? at::kLong : at::kFloat;
    weight_ = register_parameter("weight", at::ones({2, 1}, type), type == at::kFloat);
    if (fault_ == "tied") register_parameter("alias", weight_);
    register_buffer("calls", at::zeros({}));
  }

  at::Tensor Outputs(const Batch& batch) override {
    if (fault_ == "wrong shape") return at::matmul(weight_, batch.inputs);
    if (fault_ == "throw 42") throw 42;
    if (fault_ == "undefined outputs") return {};
    const at::Tensor outputs = at::matmul(batch.inputs, weight_);
    if (fault_ == "backward") return Untrainable::apply(outputs);
    if (fault_ == "in place") return outputs.exp().add_(outputs.exp_());
    Harm(fault_);
    return outputs;
  }

  at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) override {
    const at::Tensor losses = (outputs - batch.targets).square();
    if (fault_ == "loss per sample") return losses;
    if (fault_ == "loss without graph") return losses.mean().detach();
    return losses.mean();
  }

  std::vector<std::string> MetricNames() const override {
    if (fault_ == "metric twice") return {"hits", "hits"};
    if (fault_ == "metric with a space") return {"top 5"};
    for (const char* taken : {"loss", "event", "folder"}) {
      if (fault_ == std::string("metric ") + taken) return {taken};
    }
    if (fault_.starts_with("metric")) return {"hits", "misses"};
    return {};
  }

  std::vector<MetricSum> SumMetrics(const at::Tensor& outputs, const Batch& batch) override {
    if (fault_ == "metric throws") throw std::out_of_range("class 3 of 3");
    if (fault_ == "metric sums missing") return {};
    if (fault_ == "metric sums vary") return std::vector<MetricSum>(batch.samples);
    const double hits = outputs.sub(batch.targets).abs().le(1).sum().item<double>();
    return {{.sum = hits, .count = static_cast<double>(batch.samples)}, {.sum = 3, .count = 4}};
  }

 private:
  const std::string fault_;
  at::Tensor weight_;
};

class Numbers final : public ddprun::Dataset {
 public:
  explicit Numbers(const PluginDataOptions& options)
      : fault_(FaultOf(options.json)),
        size_(nlohmann::json::parse(options.json).value("size", 100)) {
    if (fault_.starts_with("opening")) Harm(fault_);
  }

  int64_t size() const override { return fault_ == "empty" ? 0 : size_; }
  bool equal_predictions() const override {
    return fault_ != "varying predictions" && !fault_.starts_with("weights");
  }
  ddprun::DataShape shape() const override { return {.classes = HasClasses() ? 3 : 0}; }
  std::vector<int64_t> Classes() const override {
    if (!HasClasses()) return {};
    if (fault_ == "few classes") return {0, 1, 2};
    return std::vector<int64_t>(size_, fault_ == "class 3" ? 3 : 2);
  }

  Batch Get(std::span<const int64_t> indices) const override {
    auto count = static_cast<int64_t>(indices.size());
    if (fault_ == "throw") throw std::out_of_range("row 7 has no column 3");
    if (fault_ == "short") --count;
    Batch batch{.inputs = at::ones({count, 2}), .targets = at::ones({count, 1})};
    if (fault_ == "scalar targets") batch.targets = at::ones({});
    if (fault_ == "samples") batch.samples = count + 5;
    if (fault_.find("weights") != fault_.npos) {
      batch.weights = at::full({count}, fault_ == "weights of 0" ? 0.0F : 0.5F);
      if (fault_ == "weights of another type") batch.weights = batch.weights.to(at::kDouble);
      if (fault_ == "weights with a wrong sum") batch.sum_of_weights = 5;
    }
    if (fault_.ends_with("predictions")) {
      batch.samples = count;
      batch.predictions = count * (indices.front() + 1);
    }
    return batch;
  }

  // Where asked for, samples that differ from each other and from epoch to epoch.
  Batch GetVaried(std::span<const int64_t> indices, int64_t epoch) const override {
    Batch batch = Get(indices);
    if (!fault_.starts_with("none, ")) return batch;
    for (size_t i = 0; i < indices.size(); ++i) {
      const auto number = static_cast<double>(indices[i] + 1000 * epoch);
      batch.inputs[static_cast<int64_t>(i)].fill_(fault_ == "none, waves" ? std::sin(number)
                                                                          : number);
    }
    return batch;
  }

 private:
  bool HasClasses() const { return fault_.find("class") != fault_.npos; }

  const std::string fault_;
  const int64_t size_;
};

std::shared_ptr<ddprun::PluginModel> MakeModel(const PluginModelOptions& options) {
  if (FaultOf(options.json) == "null") return nullptr;
  return std::make_shared<Line>(options);
}

}  // namespace

DDPRUN_PLUGIN(.model = MakeModel, .dataset = ddprun::NewDataset<Numbers>)
