// A model and a data set for ddp-trainer: the model predicts the next value of a wave.
#include <ATen/Functions.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include <ddprun/plugin.h>

namespace {

// The header of a file of waves (make_waves.cc).
struct WaveHeader {
  char magic[8] = {};
  int32_t sequences = 0;
  int32_t length = 0;
};

using ddprun::Batch;
using ddprun::MetricSum;
using ddprun::PluginDataOptions;
using ddprun::PluginModelOptions;

// Sequences of one or several files. A sample is a sequence and, as its target, the last value.
class Waves final : public ddprun::Dataset {
 public:
  explicit Waves(const PluginDataOptions& options) {
    if (options.files.empty()) throw std::runtime_error("data.train_files names no file");
    scale_ = nlohmann::json::parse(options.json).value("scale", 1.0F);
    for (const std::string& path : options.files) Read(path);
  }

  int64_t size() const override { return static_cast<int64_t>(values_.size()) / length_; }

  Batch Get(std::span<const int64_t> indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    const at::Tensor rows = at::empty({count, length_}, at::kFloat);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(rows.mutable_data_ptr<float>() + i * length_,
                  values_.data() + indices[i] * length_, length_ * sizeof(float));
    }
    rows.mul_(scale_);
    return {.inputs = rows.narrow(1, 0, length_ - 1), .targets = rows.narrow(1, length_ - 1, 1)};
  }

  ddprun::DataShape shape() const override { return {.input = {length_ - 1}, .target = {1}}; }

 private:
  void Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    WaveHeader header;
    file.read(reinterpret_cast<char*>(&header), sizeof(header));
    if (!file || std::memcmp(header.magic, "WAVES 1\n", sizeof(header.magic)) != 0) {
      throw std::runtime_error(path + " is no file of waves");
    }
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path) - sizeof(header));
    const int64_t count = int64_t{header.sequences} * header.length;
    if (header.length < 2 || bytes != count * int64_t{sizeof(float)} ||
        (length_ != 0 && length_ != header.length)) {
      throw std::runtime_error(path + " has a header that does not fit its size or other files");
    }
    length_ = header.length;
    const size_t before = values_.size();
    values_.resize(before + count);
    file.read(reinterpret_cast<char*>(values_.data() + before), bytes);
    if (!file) throw std::runtime_error(path + " cannot be read");
  }

  int64_t length_ = 0;
  float scale_ = 1;
  std::vector<float> values_;
};

// Two convolutions over time and a linear layer. Weights are drawn by LibTorch's modules.
class WaveNet final : public ddprun::PluginModel {
 public:
  explicit WaveNet(const PluginModelOptions& options) {
    const auto json = nlohmann::json::parse(options.json);
    const int64_t channels = json.value("channels", 16);
    delta_ = json.value("huber_delta", 1.0);
    const int64_t length = options.data.input.at(0);
    conv1_ = register_module(
        "conv1", torch::nn::Conv1d(torch::nn::Conv1dOptions(1, channels, 5).padding(2)));
    conv2_ = register_module(
        "conv2", torch::nn::Conv1d(torch::nn::Conv1dOptions(channels, channels, 5).padding(2)));
    head_ = register_module("head", torch::nn::Linear(channels * length, 1));
  }

  at::Tensor Outputs(const Batch& batch) override {
    const at::Tensor first = at::gelu(conv1_(batch.inputs.unsqueeze(1)));
    return head_(at::gelu(conv2_(first)).flatten(1));
  }

  // Small errors count by their square, large ones by their size.
  at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) override {
    return at::huber_loss(outputs.to(at::kFloat), batch.targets, at::Reduction::Mean, delta_);
  }

  // In an evaluation: the share of values with an error of at most 0.1, and the root of the mean
  // squared error.
  std::vector<std::string> MetricNames() const override { return {"within_0.1", "rmse"}; }

  std::vector<MetricSum> SumMetrics(const at::Tensor& outputs, const Batch& batch) override {
    const at::Tensor errors = (outputs.to(at::kDouble) - batch.targets).abs();
    const auto count = static_cast<double>(errors.numel());
    return {{.sum = errors.le(0.1).sum().item<double>(), .count = count},
            {.sum = errors.square().sum().item<double>(), .count = count}};
  }

  std::vector<double> MetricValues(const std::vector<MetricSum>& totals) const override {
    return {totals[0].sum / totals[0].count, std::sqrt(totals[1].sum / totals[1].count)};
  }

 private:
  torch::nn::Conv1d conv1_{nullptr};
  torch::nn::Conv1d conv2_{nullptr};
  torch::nn::Linear head_{nullptr};
  double delta_ = 1;
};

}  // namespace

DDPRUN_PLUGIN(.model = ddprun::NewModel<WaveNet>, .dataset = ddprun::NewDataset<Waves>)
