#include "trainer/strategies/one_process.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/cat.h>
#include <c10/core/thread_pool.h>

#include <algorithm>
#include <future>
#include <set>
#include <utility>

#include "base/mix_seeds.h"
#include "trainer/compute/device.h"
#include "trainer/compute/precision.h"
#include "trainer/models/loss.h"
#include "trainer/parallel/stopwatch.h"
#include "trainer/strategies/single.h"
#include "trainer/strategies/strategy_parts.h"

namespace ddprun::trainer {

namespace {

// Runs the work of one device on one thread, in order.
class DeviceThread {
 public:
  // `threads`: how many threads its kernels may use.
  DeviceThread(c10::Device device, int threads)
      : pool_(1, /*numa_node_id=*/-1, [device, threads] {
          UseDevice(device);
          UseOwnHostGenerator();
          at::get_num_threads();  // sets the process's number now, so that it does not do so later
          at::set_num_threads(threads);
        }) {}

  std::future<void> Run(std::function<void()> task) {
    const auto packaged = std::make_shared<std::packaged_task<void()>>(std::move(task));
    std::future<void> done = packaged->get_future();
    pool_.run([packaged] { (*packaged)(); });
    return done;
  }

 private:
  c10::ThreadPool pool_;
};

// Returns the number of the part's targets that are not ignored.
at::Tensor CountedTargets(const Batch& part) {
  return part.targets.ne(kIgnoredTarget).sum();
}

bool HasTokens(const Batch& batch) {
  return batch.targets.defined() && batch.targets.dim() > 1 &&
         batch.targets.scalar_type() == at::kLong;
}

int64_t Bytes(at::TensorList tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

int64_t BytesOf(const Batch& batch) {
  return Bytes({batch.inputs, batch.targets, batch.attention_mask, batch.token_type_ids});
}

// A model that represents the model of devices[0], but computes on all devices. Its output is a
// leaf: when the leaf has its gradient, Backward() continues from it through the replicas.
class ReplicatedModel final : public Model {
 public:
  ReplicatedModel(std::shared_ptr<Model> model,
                  const MakeReplica& make_replica,
                  OneProcessOptions options);

  // Marks the parameters and buffers of the replicas as out of date.
  void ForgetReplicas() {
    fresh_ = false;
    copy_seconds_ = 0;
  }
  void Backward();
  // Adds the gradients of all replicas on devices[0].
  void ReduceGradients();

  at::Tensor Outputs(const Batch& batch) override {
    return Gather(batch, [](Model& model, const Batch& part) { return model.Outputs(part); });
  }
  at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) override {
    Batch moved = Scatter(batch, {&output_device(), 1})[0];
    moved.predictions = batch.predictions;
    return model()->LossFrom(outputs, moved).to(options_.devices[0]);
  }
  at::Tensor Loss(const Batch& batch) override;
  std::string ConfigJson() const override { return replicas_[0]->ConfigJson(); }

  const std::vector<DeviceMemoryReport::Device>& Memory() const { return memory_; }
  // Returns the host's seconds since ForgetReplicas() for copies of parameters to the replicas and
  // of gradients back.
  double copy_seconds() const { return copy_seconds_; }

 private:
  using Compute = std::function<at::Tensor(Model& model, const Batch& part)>;

  const std::shared_ptr<Model>& model() const { return replicas_[0]; }
  const c10::Device& output_device() const { return options_.devices[options_.output_device]; }
  void Replicate();
  // Returns the results of `compute` for the parts, one after the other, on the output device.
  at::Tensor Gather(const Batch& batch, const Compute& compute);
  // Calls run(device) on the thread of each of the first `count` devices. If several throw, throws
  // the first device's exception.
  void OnEach(size_t count, const std::function<void(size_t device)>& run);
  void NoteMemory(const Batch& batch, const std::vector<Batch>& parts);

  const OneProcessOptions options_;
  std::vector<std::shared_ptr<Model>> replicas_;  // the first one is the model itself
  std::vector<DeviceMemoryReport::Device> memory_;
  bool fresh_ = false;
  std::vector<at::Tensor> given_;  // the replicas' outputs, with their graphs, until Backward()
  at::Tensor gathered_;
  double copy_seconds_ = 0;
  std::vector<std::unique_ptr<DeviceThread>> threads_;  // the last member: they end first
};

ReplicatedModel::ReplicatedModel(std::shared_ptr<Model> model,
                                 const MakeReplica& make_replica,
                                 OneProcessOptions options)
    : options_(std::move(options)), memory_(options_.devices.size()) {
  const auto count = static_cast<int>(options_.devices.size());
  const int threads = at::get_num_threads();
  for (size_t i = 0; i < options_.devices.size(); ++i) {
    const c10::Device device = options_.devices[i];
    replicas_.push_back(i == 0 ? model : make_replica(device));
    const int more = static_cast<int>(i) < threads % count ? 1 : 0;
    threads_.push_back(std::make_unique<DeviceThread>(device, std::max(1, threads / count + more)));
    memory_[i] = {.name = device.str(), .model = StateBytes(*model)};
  }
  OnEach(threads_.size(), [](size_t) {});
  // Restores the thread number of new threads, because the device threads have changed it.
  at::set_num_threads(threads);
}

void ReplicatedModel::OnEach(size_t count, const std::function<void(size_t)>& run) {
  std::vector<std::future<void>> done;
  for (size_t i = 0; i < count; ++i) done.push_back(threads_[i]->Run([&run, i] { run(i); }));
  for (const std::future<void>& one : done) one.wait();
  for (std::future<void>& one : done) one.get();
}

void ReplicatedModel::Replicate() {
  if (std::exchange(fresh_, true)) return;
  const Stopwatch stopwatch(copy_seconds_);
  OnEach(replicas_.size(), [&](size_t i) {
    if (i == 0) return;
    CopyState(*model(), *replicas_[i]);
    for (at::Tensor& parameter : replicas_[i]->parameters()) parameter.mutable_grad().reset();
  });
}

at::Tensor ReplicatedModel::Gather(const Batch& batch, const Compute& compute) {
  const std::vector<Batch> parts = Scatter(batch, options_.devices);
  const bool gradients = at::GradMode::is_enabled();
  const ComputePrecision precision = CurrentPrecision();
  const uint64_t seed = HostSeed();
  const bool training = model()->is_training();
  std::vector<at::Tensor> given(parts.size());
  Replicate();
  OnEach(parts.size(), [&](size_t i) {
    Model& replica = *replicas_[i];
    const at::AutoGradMode grad_mode(gradients);
    const PrecisionScope scope(precision);
    replica.train(training);
    SeedGenerators(options_.devices[i], i == 0 ? seed : MixSeeds({seed, i}));
    given[i] = compute(replica, parts[i]);
  });
  std::vector<at::Tensor> moved;
  for (const at::Tensor& one : given) moved.push_back(one.detach().to(output_device()));
  at::Tensor gathered = at::cat(moved);
  if (gradients) {
    given_ = std::move(given);
    gathered_ = gathered.requires_grad_();
    NoteMemory(batch, parts);
  }
  return gathered;
}

// Each device has averaged its own samples. Their mean, weighted by the numbers of samples, is the
// mean of all samples.
at::Tensor ReplicatedModel::Loss(const Batch& batch) {
  if (options_.loss == DpLoss::kGathered) return LossFrom(Outputs(batch), batch);
  const auto all = static_cast<double>(batch.predictions);
  const at::Tensor losses = Gather(batch, [all](Model& model, const Batch& part) {
    const at::Tensor loss = model.Loss(part);
    const at::Tensor weighted = HasTokens(part)
                                    ? loss * (CountedTargets(part).to(loss.scalar_type()) / all)
                                    : loss * (static_cast<double>(part.samples) / all);
    return weighted.reshape({1});
  });
  return losses.sum().to(options_.devices[0]);
}

void ReplicatedModel::Backward() {
  const at::Tensor gradient = gathered_.grad();
  const std::vector<at::Tensor> given = std::exchange(given_, {});
  gathered_ = at::Tensor();
  if (!gradient.defined()) return;
  std::vector<int64_t> sizes;
  for (const at::Tensor& one : given) sizes.push_back(one.size(0));
  const std::vector<at::Tensor> parts = gradient.split_with_sizes(sizes);
  OnEach(parts.size(), [&](size_t i) {
    if (given[i].requires_grad()) given[i].backward(parts[i].to(options_.devices[i]));
  });
}

void ReplicatedModel::ReduceGradients() {
  const at::NoGradGuard no_grad;
  const Stopwatch stopwatch(copy_seconds_);
  std::vector<std::vector<at::Tensor>> parameters;
  for (size_t i = 0; i < replicas_.size(); ++i) {
    parameters.push_back(replicas_[i]->parameters());
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters[i]) gradients.push_back(parameter.grad());
    memory_[i].gradients = Bytes(gradients);
  }
  for (size_t i = 1; i < replicas_.size(); ++i) {
    std::vector<at::Tensor> sums;
    std::vector<at::Tensor> added;
    for (size_t p = 0; p < parameters[i].size(); ++p) {
      const at::Tensor gradient = parameters[i][p].grad();
      if (!gradient.defined()) continue;
      at::Tensor& sum = parameters[0][p].mutable_grad();
      const at::Tensor here = gradient.to(options_.devices[0]);
      if (sum.defined()) {
        sums.push_back(sum);
        added.push_back(here);
      } else {
        sum = here.clone();
      }
    }
    if (!sums.empty()) at::_foreach_add_(sums, added);
  }
}

void ReplicatedModel::NoteMemory(const Batch& batch, const std::vector<Batch>& parts) {
  for (size_t i = 0; i < memory_.size(); ++i) {
    DeviceMemoryReport::Device& memory = memory_[i];
    const bool used = i < parts.size();
    memory.samples = used ? parts[i].samples : 0;
    memory.batch = (used ? BytesOf(parts[i]) : 0) + (i == 0 ? BytesOf(batch) : 0);
    memory.outputs = used ? Bytes({given_[i]}) : 0;
    if (i != options_.output_device) continue;
    memory.gathered = gathered_.sizes().vec();
    memory.outputs += 2 * Bytes({gathered_});  // with its gradient
  }
}

class DataParallel final : public Strategy {
 public:
  DataParallel(std::shared_ptr<Model> model,
               std::unique_ptr<Optimizer> optimizer,
               const MakeReplica& make_replica,
               const OneProcessOptions& options)
      : all_(model, make_replica, options),
        single_(MakeSingle(std::move(model), std::move(optimizer))),
        first_device_(options.devices[0]) {}

  void ForwardBackward(const StepInputs& inputs) override {
    single_->ForwardBackward({.step = inputs.step, .learning_rate = inputs.learning_rate});
    all_.ForgetReplicas();
    for (size_t i = 0; i < inputs.micro_batches.size(); ++i) {
      RunMicroBatch(inputs, i, all_, [this] { all_.Backward(); });
    }
    all_.ReduceGradients();
  }
  std::vector<at::Tensor> Gradients() override { return single_->Gradients(); }
  DeviceScalar GradientNorm() override { return single_->GradientNorm(); }
  DeviceScalar ClipGradients(double max_norm) override { return single_->ClipGradients(max_norm); }
  void Step() override { single_->Step(); }
  void SwapAverages() override { single_->SwapAverages(); }
  void BeforeEvaluation() override { all_.ForgetReplicas(); }
  BatchEvaluation EvaluateBatch(Model& /*model*/, const Batch& batch, bool with_outputs) override {
    BatchEvaluation found = Strategy::EvaluateBatch(all_, batch, with_outputs);
    if (with_outputs) found.outputs = found.outputs.to(first_device_);
    return found;
  }
  void Report(const Observers& observers, int64_t step) override {
    DeviceMemoryReport report{.step = step, .devices = all_.Memory()};
    std::vector<int64_t> samples;
    for (const DeviceMemoryReport::Device& device : report.devices) {
      samples.push_back(device.samples);
    }
    if (!reported_splits_.insert(samples).second) return;
    const StateDict state = State();
    for (const StateTensor& one : state.tensors) {
      if (one.name.starts_with("optimizer.")) report.devices[0].optimizer += Bytes({one.tensor});
    }
    observers.Notify(&Observer::OnDeviceMemory, report);
  }
  void NameState(StateVisitor& visitor) override { single_->NameState(visitor); }
  double exposed_seconds() const override { return all_.copy_seconds(); }

 private:
  ReplicatedModel all_;
  const std::unique_ptr<Strategy> single_;
  const c10::Device first_device_;
  std::set<std::vector<int64_t>> reported_splits_;  // samples of each device
};

}  // namespace

std::vector<Batch> Scatter(const Batch& batch, std::span<const c10::Device> devices) {
  const auto count = static_cast<int64_t>(devices.size());
  std::vector<Batch> parts(batch.inputs.chunk(count).size());
  const auto cut = [&](at::Tensor Batch::*field) {
    if (!(batch.*field).defined()) return;
    const std::vector<at::Tensor> pieces = (batch.*field).chunk(count);
    for (size_t i = 0; i < parts.size(); ++i) parts[i].*field = pieces[i].to(devices[i]);
  };
  cut(&Batch::inputs);
  cut(&Batch::targets);
  cut(&Batch::attention_mask);
  cut(&Batch::token_type_ids);
  const at::Tensor& mask = batch.on_host.attention_mask;
  const std::vector<at::Tensor> masks =
      mask.defined() ? mask.chunk(count) : std::vector<at::Tensor>(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].samples = parts[i].inputs.size(0);
    // The host does not know how many tokens on a device count. Models only ask whether any do.
    parts[i].predictions = HasTokens(parts[i]) && parts[i].targets.is_cpu()
                               ? CountedTargets(parts[i]).item<int64_t>()
                               : parts[i].samples;
    parts[i].on_host = {.attention_mask = masks[i], .largest_target = batch.on_host.largest_target};
  }
  return parts;
}

std::unique_ptr<Strategy> MakeDataParallel(std::shared_ptr<Model> model,
                                           std::unique_ptr<Optimizer> optimizer,
                                           const MakeReplica& make_replica,
                                           const OneProcessOptions& options) {
  return std::make_unique<DataParallel>(std::move(model), std::move(optimizer), make_replica,
                                        options);
}

}  // namespace ddprun::trainer
