// ddp-bench: measures how gradients are averaged; one process per rank.
//
//   ddprun --nproc_per_node=2 --no_python ddp-bench overlap
#include <ATen/Parallel.h>
#include <torch/version.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/failure.h"
#include "benchmarks/ddp_bench/all_reduce_sweep.h"
#include "benchmarks/ddp_bench/step_case.h"
#include "benchmarks/ddp_bench/step_sweep.h"
#include "benchmarks/ddp_bench/table.h"
#include "trainer/comm/bootstrap.h"

namespace {

using ddprun::bench::AllReduceOptions;
using ddprun::bench::CaseOptions;
using ddprun::bench::SweepOptions;
using ddprun::bench::Variant;
using Overlap = ddprun::trainer::ReducerOptions::Overlap;
using Sync = Variant::Sync;

struct Arguments {
  std::string json;
  int threads = 1;
  AllReduceOptions all_reduce = {
      .sizes = {4 << 10, 64 << 10, 1 << 20, 4 << 20, 25 << 20, 100 << 20},
      .algorithms = {}};  // empty means all that work between these ranks
  CaseOptions model;
  SweepOptions sweep;
  std::vector<double> buckets_mb = {0.125, 0.5, 1, 2, 5, 10, 25, 100};
  double bucket_mb = 5;
  bool torch = false;
};

Variant Local(double bucket_mb) {
  return {.name = "no communication", .sync = Sync::kLocal, .bucket_mb = bucket_mb};
}

std::vector<Variant> BucketVariants(const Arguments& arguments) {
  std::vector<Variant> variants = {Local(25)};
  for (const double size : arguments.buckets_mb) {
    const std::string name = ddprun::bench::SizeText(size * 1024 * 1024);
    variants.push_back({.name = name, .bucket_mb = size});
    if (arguments.torch) {
      variants.push_back({.name = name + ", c10d", .sync = Sync::kTorch, .bucket_mb = size});
    }
  }
  return variants;
}

std::vector<Variant> OverlapVariants(const Arguments& arguments) {
  const auto ours = [&](const char* name, Overlap overlap) {
    return Variant{.name = name, .overlap = overlap, .bucket_mb = arguments.bucket_mb};
  };
  std::vector<Variant> variants = {
      Local(arguments.bucket_mb), ours("none", Overlap::kNone), ours("step", Overlap::kStep),
      ours("backward", Overlap::kBackward), ours("both", Overlap::kBoth)};
  if (arguments.torch) {
    variants.push_back(
        {.name = "c10d::Reducer", .sync = Sync::kTorch, .bucket_mb = arguments.bucket_mb});
  }
  return variants;
}

std::vector<Variant> OverheadVariants() {
  return {{.name = "no communication", .sync = Sync::kSingle},
          {.name = "ddprun"},
          {.name = "c10d::Reducer", .sync = Sync::kTorch}};
}

// CLI::PositiveNumber's message would show the largest double with all its digits.
const CLI::Range kCount(1, 1 << 30);
const CLI::Range kMebibytes(1e-6, 65536.0);

void AddModel(CLI::App& app, Arguments& arguments) {
  CaseOptions& model = arguments.model;
  app.add_option("--model", model.model)->check(CLI::IsMember({"gpt", "mlp"}));
  app.add_option("--sizes", model.sizes,
                 "gpt: width, layers, heads; mlp: input, hidden ..., output");
  app.add_option("--batch", model.batch, "Samples per rank")->check(kCount);
  app.add_option("--sequence", model.sequence, "gpt: tokens per sample")->check(kCount);
  app.add_option("--rounds", arguments.sweep.rounds, "The variants take turns so often")
      ->check(kCount);
  app.add_option("--steps", arguments.sweep.steps, "Steps of a variant in a round")->check(kCount);
  app.add_option("--link_gigabit", arguments.sweep.link_gigabit,
                 "Collectives take as long as on a link of so many gigabit per second");
  app.add_flag("--torch", arguments.torch, "Measure c10d::Reducer over the same group too");
}

void Define(CLI::App& app, Arguments& arguments) {
  app.set_version_flag("--version", "ddp-bench " DDPRUN_VERSION "\nLibTorch " TORCH_VERSION);
  app.add_option("--json", arguments.json, "Rank 0 writes the results there");
  app.add_option("--threads", arguments.threads, "Threads of a rank for computing")->check(kCount);
  app.require_subcommand(1);
  CLI::App* const sweep = app.add_subcommand("allreduce", "All-reduce: sizes against algorithms");
  AllReduceOptions& all_reduce = arguments.all_reduce;
  sweep->add_option("--sizes", all_reduce.sizes, "Bytes")
      ->check(CLI::Range(int64_t{4}, int64_t{1} << 33));
  sweep
      ->add_option("--algorithms", all_reduce.algorithms,
                   "Those to measure; default: all that work between these ranks")
      ->check(CLI::IsMember(ddprun::bench::AlgorithmNames()));
  sweep->add_option("--rounds", all_reduce.rounds)->check(kCount);
  sweep->add_option("--seconds", all_reduce.seconds, "Of each algorithm, size and round");
  CLI::App* const buckets =
      app.add_subcommand("buckets",
                         "Training steps with buckets of several sizes (a run chooses one "
                         "itself with strategy.bucket_cap_mb \"auto\")");
  buckets->add_option("--buckets_mb", arguments.buckets_mb, "MiB")->check(kMebibytes);
  CLI::App* const overlap = app.add_subcommand(
      "overlap",
      "Training steps with the all-reduce after backward, beside the optimizer's step, "
      "beside backward, and both");
  overlap->add_option("--bucket_mb", arguments.bucket_mb, "MiB")->check(kMebibytes);
  CLI::App* const overhead =
      app.add_subcommand("overhead", "Steps of a tiny model with and without other ranks");
  for (CLI::App* steps : {buckets, overlap, overhead}) {
    AddModel(*steps, arguments);
  }
}

void SetModelDefaults(CaseOptions& model, bool tiny) {
  if (tiny) model.optimizer = "sgd";
  if (tiny && model.sizes.empty()) model.model = "mlp";
  if (!model.sizes.empty()) return;
  model.sizes =
      model.model == "mlp" ? std::vector<int64_t>{10, 10, 5} : std::vector<int64_t>{384, 6, 6};
}

bool SizesFit(const CaseOptions& model) {
  const bool fit = model.model == "mlp" ? model.sizes.size() >= 2 : model.sizes.size() == 3;
  if (!fit) {
    std::fputs("ddp-bench: --sizes has three sizes for a gpt, two or more for an mlp\n", stderr);
  }
  return fit;
}

// Leaves out textbook algorithms between nodes, because they need memory that all ranks share.
std::vector<std::string> AlgorithmsBetweenTheseRanks() {
  const auto info =
      ddprun::ValueOrThrow(ddprun::trainer::ReadRankInfo(ddprun::Environment::OfProcess()));
  if (info.local_world_size == info.world_size) return ddprun::bench::AlgorithmNames();
  return {std::string(ddprun::trainer::NameOf(ddprun::AllReduceAlgorithm::kDirect)),
          std::string(ddprun::trainer::NameOf(ddprun::AllReduceAlgorithm::kHierarchical))};
}

int Run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app(
      "Measures how gradients are averaged, as the rank that the environment names:\n"
      "ddprun --nproc_per_node=2 --no_python ddp-bench overlap");
  Define(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  at::set_num_threads(arguments.threads);
  const auto group =
      ddprun::trainer::InitProcessGroup(ddprun::Environment::OfProcess(), std::chrono::seconds(100),
                                        /*recorder=*/nullptr, arguments.sweep.link_gigabit);
  nlohmann::json report;
  if (app.got_subcommand("allreduce")) {
    if (arguments.all_reduce.algorithms.empty()) {
      arguments.all_reduce.algorithms = AlgorithmsBetweenTheseRanks();
    }
    report = SweepAllReduce(*group, arguments.all_reduce);
  } else {
    const bool tiny = app.got_subcommand("overhead");
    SetModelDefaults(arguments.model, tiny);
    if (!SizesFit(arguments.model)) return 2;
    const auto what = MakeCase(arguments.model, group->getRank());
    const std::vector<Variant> variants = tiny ? OverheadVariants()
                                          : app.got_subcommand("buckets")
                                              ? BucketVariants(arguments)
                                              : OverlapVariants(arguments);
    report = SweepSteps(group, what, variants, arguments.sweep);
  }
  if (group->getRank() == 0 && !arguments.json.empty()) {
    std::ofstream file(arguments.json);
    file << report.dump(1) << "\n";
    if (!file.flush()) {
      std::fprintf(stderr, "ddp-bench: cannot write %s\n", arguments.json.c_str());
      return 1;
    }
  }
  group->barrier({})->wait();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return ddprun::ExitStatus(failure.error().code);
  }
}
