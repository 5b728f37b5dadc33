// Whole runs of small models on the CPU or on simulated devices, ranks as threads.
#pragma once

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/trainer/device/graph.h"
#include "tests/trainer/device/pinned_memory.h"
#include "tests/trainer/device/process_group.h"
#include "tests/trainer/device/simulated_device.h"
#include "tests/trainer/models/small_models.h"
#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/compute/device.h"
#include "trainer/job/plan_job.h"
#include "trainer/loop/trainer.h"
#include "trainer/models/pretrained.h"
#include "trainer/worker/device_mesh.h"

namespace ddprun::trainer {

// One thread, so that sums have one order. Set at first, because streams' threads keep the number.
inline const bool kOneThread = [] {
  at::set_num_threads(1);
  return true;
}();

// Batches for one of SmallModels(); texts have padding in front.
class SmallData final : public Dataset {
 public:
  explicit SmallData(std::string model, int64_t size = 32)
      : model_(std::move(model)), size_(size) {}
  // Called on the loop's thread before each batch of the first `watched` devices, with the device's
  // batch number from 0 on. If it is set, ranks meet in each step.
  std::function<void(int64_t batch)> before_batch = {};
  int watched = 1;
  int64_t other_padding = -4;  // this index and this index + 2 swap their padding

  int64_t size() const override { return size_; }
  bool equal_predictions() const override { return before_batch == nullptr; }
  bool in_memory() const override { return true; }
  Batch Get(std::span<const int64_t> indices) const override {
    const int device = simulated::CurrentDevice();
    if (before_batch && device < watched) before_batch(batches_[static_cast<size_t>(device)]++);
    Batch batch;
    std::vector<at::Tensor> inputs, targets;
    const bool tokens = model_ == "gpt" || model_ == "llama";
    for (const int64_t index : indices) {
      const auto seed = static_cast<uint64_t>(1000 + index);
      const auto below = [&](int64_t limit, at::IntArrayRef sizes) {
        return Random(sizes, seed).abs().mul(100).to(at::kLong).remainder(limit);
      };
      inputs.push_back(tokens || model_ == "bert" ? below(20, {12})
                       : model_ == "mlp"          ? Random({48}, seed)
                                                  : Random({3, 32, 32}, seed));
      targets.push_back(tokens ? below(20, {12}) : below(3, {}));
    }
    batch.inputs = at::stack(inputs);
    batch.targets = at::stack(targets);
    batch.samples = static_cast<int64_t>(indices.size());
    if (tokens || model_ == "bert") {
      batch.attention_mask = at::ones_like(batch.inputs);
      // Two of each four samples have padding, so that each of two ranks has equally many.
      for (size_t i = 0; i < indices.size(); ++i) {
        const bool other = indices[i] == other_padding || indices[i] == other_padding + 2;
        if ((indices[i] % 4 > 1) != other) continue;
        batch.attention_mask[static_cast<int64_t>(i)].narrow(0, tokens ? 0 : 8, 4).zero_();
      }
    }
    if (tokens) batch.targets.masked_fill_(batch.attention_mask == 0, -100);
    batch.predictions = batch.targets.ne(-100).sum().item<int64_t>();
    return batch;
  }

 private:
  const std::string model_;
  const int64_t size_;
  mutable std::array<int64_t, simulated::kDevices> batches_{};
};

struct Trained {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<EvalReport> evaluations;
  std::vector<StepReport> reported;
  std::vector<BucketSizesReport> bucket_sizes;
  std::map<std::string, at::Tensor> state;  // on the CPU
  std::vector<std::string> lines;           // of the log
};

class Recorded final : public Observer {
 public:
  explicit Recorded(Trained& trained) : trained_(trained) {}
  void OnStep(const StepReport& report, ReportTime /*now*/) override {
    trained_.losses.push_back(report.loss);
    trained_.norms.push_back(report.grad_norm);
    if (report.reported) trained_.reported.push_back(report);
  }
  void OnEval(const EvalReport& report, ReportTime /*now*/) override {
    trained_.evaluations.push_back(report);
  }
  void OnBucketSizes(const BucketSizesReport& report, ReportTime /*now*/) override {
    trained_.bucket_sizes.push_back(report);
  }

 private:
  Trained& trained_;
};

// Returns a file with weights for the model. Ranks that are threads share the CPU's generator, so
// they must not draw weights themselves.
inline std::string WeightsFor(const std::string& model) {
  struct Folder {
    ~Folder() { std::filesystem::remove_all(path); }
    const std::string path = testing::TempDir() + "/device_training_" + std::to_string(::getpid());
  };
  static const Folder folder;
  const std::string path = folder.path + "/" + model;
  if (!std::filesystem::exists(path)) {
    std::filesystem::create_directories(folder.path);
    SeedGenerators(at::kCPU, 3);
    SavePretrained(*MakeModel(SmallModels().at(model)), path);
  }
  return path + "/" + kWeightsName;
}

// The CudaModule of simulated devices.
inline const CudaModule& SimulatedModule() {
  static const CudaModule module = [] {
    CudaModule made{};
    made.make_group = simulated::MakeGroup;
    made.pinned = simulated::LargePinnedMemory();
    return made;
  }();
  return module;
}

inline Job JobOf(const std::string& model, double dropout = 0) {
  Job job;
  job.device.module = &SimulatedModule();
  job.config.run.max_steps = 6;
  job.config.training.per_device_train_batch_size = 4;
  job.config.training.max_grad_norm = 0.5;
  job.config.report.logging_steps = 3;
  job.config.optimizer.learning_rate = 1e-2;
  job.config.data.dataloader_num_workers = 0;
  job.config.model.name_or_path = WeightsFor(model);
  job.model = SmallModels(dropout).at(model);
  job.train = std::make_unique<SmallData>(model);
  return job;
}

// `begin` is called before the first step.
inline Trained Train(const Job& job,
                     const Mesh& mesh,
                     const std::function<void(Trainer&)>& begin = {}) {
  Trained trained;
  Observers observers;
  observers.Add(std::make_unique<Recorded>(trained));
  const Log log({}, [&](std::string_view line) { trained.lines.emplace_back(line); });
  Trainer trainer(job, PlanFor(job, mesh.world.size), mesh, nullptr, log);
  trainer.Build();
  if (begin) begin(trainer);
  trainer.Fit(mesh.world.rank == 0 ? &observers : nullptr);
  // Other ranks may have only a part of the state.
  if (mesh.world.rank != 0) return trained;
  for (const auto& item : trainer.model().State()) {
    trained.state[item.key()] = item.value().detach().cpu().clone();
  }
  return trained;
}

enum class Group { kHost, kDevice };

// Returns rank 0's run. One thread computes, so that sums have one order. `gradients` is the group
// that carries all that the strategy sends. Each rank calls `begin` before its first step.
inline Trained TrainOn(c10::DeviceType type,
                       int ranks,
                       const Job& job,
                       Group gradients = Group::kHost,
                       const std::function<void(Trainer&, int rank)>& begin = {}) {
  const auto device = [&](int rank) {
    return type == at::kCPU ? c10::Device(type)
                            : c10::Device(type, static_cast<c10::DeviceIndex>(rank));
  };
  if (ranks == 1) {
    Mesh mesh;
    mesh.device = device(0);
    mesh.make_graph = simulated::MakeGraph;
    return Train(job, mesh);
  }
  Trained first;
  static std::atomic<int> calls = 0;
  const std::string prefix = "device_training/" + std::to_string(calls++) + "/";
  WithGroup(ranks, [&](const auto& group, int rank) {
    at::set_num_threads(1);
    Mesh mesh = MakeMesh(group, ValueOrThrow(ResolveDims(job.config, ranks)));
    mesh.device = device(rank);
    mesh.make_graph = simulated::MakeGraph;
    const c10::OptionalDeviceGuard guard(type == at::kCPU ? std::nullopt
                                                          : std::optional(mesh.device));
    if (gradients == Group::kDevice) {
      ReplaceGroups(
          SimulatedModule(), prefix, [] { return c10::make_intrusive<c10d::HashStore>(); },
          std::chrono::minutes(1), mesh);
    }
    Trained own = Train(job, mesh, [&](Trainer& trainer) {
      if (begin) begin(trainer, rank);
    });
    mesh.ShutDown();
    if (rank == 0) first = std::move(own);
  });
  EXPECT_EQ(simulated::TakeGroupFaults(), "");
  return first;
}

// Trains on the CPU with the operators for devices.
inline Trained TrainInDeviceForms(int ranks, const Job& job) {
  const DeviceOperatorsOnly scope;
  at::globalContext().setSDPUseFlash(false);
  Trained trained = TrainOn(at::kCPU, ranks, job);
  at::globalContext().setSDPUseFlash(true);
  return trained;
}

inline void ExpectSameBits(const Trained& found, const Trained& expected) {
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.norms, expected.norms);
  ASSERT_FALSE(found.losses.empty());
  std::string other;
  for (const auto& [name, tensor] : expected.state) {
    if (!found.state.at(name).equal(tensor)) other += " " + name;
  }
  EXPECT_EQ(other, "");
}

}  // namespace ddprun::trainer
