#include "benchmarks/ddp_bench/step_sweep.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>

#include "benchmarks/ddp_bench/table.h"
#include "benchmarks/ddp_bench/torch_reducer.h"
#include "trainer/strategies/ddp.h"
#include "trainer/strategies/single.h"

namespace ddprun::bench {

namespace {

using Clock = std::chrono::steady_clock;
using Group = c10::intrusive_ptr<HostProcessGroup>;
using Times = std::map<std::string, std::vector<double>>;  // by phase

constexpr int kWarmup = 2;  // two, because the first step changes the layout of buckets
constexpr double kLearningRate = 1e-4;
const std::vector<std::string> kPhases = {"forward", "backward",   "update",
                                          "step",    "all_reduce", "waited"};

double Seconds(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

ddprun::BucketLimits LimitsOf(const Variant& variant) {
  constexpr double kMiB = 1 << 20;
  return {.first_bytes = std::llround(std::min(1.0, variant.bucket_mb) * kMiB),
          .cap_bytes = std::llround(variant.bucket_mb * kMiB)};
}

std::unique_ptr<trainer::Strategy> MakeStrategy(const Group& group,
                                                const Mesh& mesh,
                                                const StepCase& what,
                                                const Variant& variant) {
  if (variant.sync == Variant::Sync::kSingle) {
    return trainer::MakeSingle(what.model, what.MakeOptimizer());
  }
  if (variant.sync == Variant::Sync::kTorch) {
    return MakeTorchReducer(what.model, what.MakeOptimizer(), group, LimitsOf(variant));
  }
  trainer::DataParallelOptions options;
  options.sync.reducer = {.limits = LimitsOf(variant), .overlap = variant.overlap};
  if (variant.sync == Variant::Sync::kLocal) {
    options.sync.reducer.comm_hook = MakePostLocalSgdHook({.start_step = 0});
  }
  return trainer::MakeDistributedDataParallel(what.model, what.MakeOptimizer(), mesh, options);
}

void OneStep(const StepCase& what, trainer::Strategy& strategy, Times& times) {
  const Clock::time_point begin = Clock::now();
  Clock::time_point forward;
  const auto loss = [&](trainer::Model& model, const Batch& batch, size_t) {
    const at::Tensor value = model.Loss(batch);
    forward = Clock::now();
    return value;
  };
  strategy.ForwardBackward(
      {.learning_rate = kLearningRate, .micro_batches = {&what.batch, 1}, .loss = loss});
  const Clock::time_point backward = Clock::now();
  strategy.Step();
  times["forward"].push_back(Seconds(begin, forward));
  times["backward"].push_back(Seconds(forward, backward));
  times["update"].push_back(Seconds(backward, Clock::now()));
  times["waited"].push_back(strategy.exposed_seconds());
}

// Returns the tensors that a step all-reduces; none if they are unknown.
std::vector<at::Tensor> BucketsOf(const c10::intrusive_ptr<c10d::Backend>& carrier,
                                  const StepCase& what,
                                  const Variant& variant) {
  std::vector<at::Tensor> tensors;
  if (variant.sync != Variant::Sync::kDdprun) return tensors;
  trainer::GradientBuckets buckets(what.Parameters(), carrier);
  std::vector<size_t> order(buckets.parameters().size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  buckets.Layout(buckets.Plan(order, LimitsOf(variant)));
  for (const auto& bucket : buckets.buckets()) tensors.push_back(bucket.gradients.flat);
  return tensors;
}

// Returns the seconds of all-reducing a step's buckets one after the other, without other work.
double AllReduceAlone(c10d::Backend& carrier, const std::vector<at::Tensor>& buckets) {
  c10d::AllreduceOptions options;
  options.asyncOp = false;
  std::vector<double> rounds;
  for (int round = 0; round < 3; ++round) {
    const Clock::time_point begin = Clock::now();
    for (const at::Tensor& bucket : buckets) {
      std::vector<at::Tensor> tensors = {bucket};
      carrier.allreduce(tensors, options);
    }
    rounds.push_back(Seconds(begin, Clock::now()));
  }
  return Median(rounds);
}

// Measures one round of one variant. Returns the medians.
std::map<std::string, double> Round(const Group& group,
                                    const StepCase& what,
                                    trainer::Strategy& strategy,
                                    int steps) {
  Times warmup;
  for (int step = 0; step < kWarmup; ++step) OneStep(what, strategy, warmup);
  group->barrier({})->wait();
  Times times;
  const Clock::time_point begin = Clock::now();
  for (int step = 0; step < steps; ++step) OneStep(what, strategy, times);
  std::map<std::string, double> result = {{"step", Seconds(begin, Clock::now()) / steps}};
  for (const auto& [phase, values] : times) result[phase] = Median(values);
  group->barrier({})->wait();
  return result;
}

void PrintSteps(const nlohmann::json& report) {
  std::vector<std::vector<std::string>> table = {{report["model"].get<std::string>() + ", " +
                                                      std::to_string(report["ranks"].get<int>()) +
                                                      " ranks",
                                                  "buckets", "forward", "backward", "update",
                                                  "all-reduce alone", "waited", "step", "exposed"}};
  for (const auto& result : report["results"]) {
    std::vector<std::string>& row = table.emplace_back();
    row.push_back(result["name"]);
    row.push_back(std::to_string(result["buckets"].get<size_t>()));
    for (const char* phase : {"forward", "backward", "update", "all_reduce", "waited", "step"}) {
      const double value = result[phase];
      row.push_back(value > 1e-6 ? TimeText(value) : "-");
    }
    const double exposed = result.value("exposed", 0.0);
    row.push_back((exposed < 0 ? "-" : "") + TimeText(std::abs(exposed)));
  }
  PrintTable(table);
}

}  // namespace

nlohmann::json SweepSteps(const Group& group,
                          const StepCase& what,
                          const std::vector<Variant>& variants,
                          const SweepOptions& options) {
  const Mesh mesh = group;
  std::vector<Times> times(variants.size());
  std::vector<size_t> buckets(variants.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t turn = 0; turn < variants.size(); ++turn) {
      const size_t i = (turn + static_cast<size_t>(round)) % variants.size();
      auto strategy = MakeStrategy(group, mesh, what, variants[i]);
      for (const auto& [phase, seconds] : Round(group, what, *strategy, options.steps)) {
        times[i][phase].push_back(seconds);
      }
      strategy.reset();
      what.model->zero_grad();  // gradients are views of the strategy's buckets
      const std::vector<at::Tensor> tensors = BucketsOf(mesh.data.group, what, variants[i]);
      times[i]["all_reduce"].push_back(AllReduceAlone(*mesh.data.group, tensors));
      buckets[i] = tensors.size();
    }
  }
  nlohmann::json report = {{"benchmark", "steps"},
                           {"ranks", group->getSize()},
                           {"model", what.name},
                           {"gradient_bytes", what.GradientBytes()},
                           {"link_gigabit", options.link_gigabit},
                           {"results", nlohmann::json::array()}};
  for (size_t i = 0; i < variants.size(); ++i) {
    nlohmann::json result = {{"name", variants[i].name},
                             {"bucket_mb", variants[i].bucket_mb},
                             {"buckets", buckets[i]},
                             {"step_all", times[i]["step"]}};
    for (const std::string& phase : kPhases) result[phase] = Median(times[i][phase]);
    report["results"].push_back(std::move(result));
  }
  for (size_t i = 0; i < variants.size(); ++i) {
    // Compares within a round, because other programs may disturb one round and not the next.
    std::vector<double> exposed;
    for (size_t round = 0; round < times[0]["step"].size(); ++round) {
      exposed.push_back(times[i]["step"][round] - times[0]["step"][round]);
    }
    report["results"][i]["exposed"] = Median(exposed);
  }
  if (group->getRank() == 0) PrintSteps(report);
  return report;
}

}  // namespace ddprun::bench
