#include "trainer/job/strategy_plan.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "base/text.h"
#include "trainer/config/parallel_dims.h"
#include "trainer/config/slot.h"
#include "trainer/job/model_part.h"
#include "trainer/job/plan_job.h"
#include "trainer/report/format.h"

namespace ddprun::trainer {

namespace {

// Returns the bytes that each of `ranks` sends to sum up `bytes` over all ranks.
double SentToSum(double bytes, double ranks) {
  return 2 * (ranks - 1) / ranks * bytes;
}

// Returns the bytes that a rank sends along the data axis in a step of `batches` micro-batches.
// `in_place` means that ranks read each other's parameters without copies.
double SentOfModel(const ParallelDims& dims, double model, double batches, bool in_place) {
  const double ranks = dims.data;
  const double shards = dims.shard;
  const double once = (shards - 1) / shards * model;  // to gather all shards, or to sum one's own
  const double of_replicas = SentToSum(model / shards, ranks / shards);
  switch (dims.replicas) {
    case Replicas::kShardOptimizer:
      return SentToSum(model, ranks) + once;  // by ddp's reducer; then the updated parts
    case Replicas::kShardGradients:
      return (batches + 1) * once + of_replicas;
    case Replicas::kShardParameters:
      return (in_place ? 1 : 3) * batches * once + of_replicas;
    default:
      return SentToSum(model, ranks);
  }
}

// Returns the bytes of activations from one stage to the next; as many bytes of gradients go back.
double BorderBytes(const ModelPart& part, const ModelPart& next) {
  if (!part.stages || !next.stages || next.stages->empty()) return 0;
  const double input = next.stages->front().input;
  return input > 0 || part.stages->empty() ? input : part.stages->back().input;
}

double SentBytes(const Job& job, const ParallelDims& dims, int on_machine) {
  std::vector<ModelPart> parts;
  for (int stage = 0; stage < dims.pipeline; ++stage) parts.push_back(PartOf(job, dims, stage));
  const auto accumulated = static_cast<double>(job.config.training.gradient_accumulation_steps);
  const double batches = accumulated * static_cast<double>(SplitOfMicroBatch(job, dims));
  const bool in_place = ShardsAreOnOneMachine(dims.shard, on_machine);
  double most = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ModelPart& part = parts[i];
    double sent = SentOfModel(dims, part.trained, accumulated, in_place);
    double summed = 0;
    for (const StageMemory& stage : part.stages.value_or(std::vector<StageMemory>())) {
      summed += stage.summed;
    }
    sent += SentToSum(summed, dims.tensor) * batches;
    if (i > 0) sent += BorderBytes(parts[i - 1], part) * batches;
    if (i + 1 < parts.size()) sent += BorderBytes(part, parts[i + 1]) * batches;
    most = std::max(most, sent + SentToSum(part.shared, 2));
  }
  return most;
}

struct Choice {
  StrategyType type = StrategyType::kDdp;
  ParallelDims dims = {};
  bool combined = false;  // not listed if it is not possible, because its parts are listed
};

// Adds combinations, for jobs to which one strategy alone is not enough: layers are divided within
// a machine, the rest between machines or neighbours.
void AddCombinations(int ranks, int nodes, std::vector<Choice>& choices) {
  const int stages = std::max(2, nodes);
  const auto add = [&](StrategyType type, const ParallelDims& dims) {
    choices.push_back({type, dims, /*combined=*/true});
  };
  for (int tensor = 2; tensor <= ranks / nodes && tensor < ranks; ++tensor) {
    if (ranks / nodes % tensor == 0) add(StrategyType::kZero3, {.tensor = tensor});
  }
  if (ranks % stages != 0 || ranks == stages) return;
  add(StrategyType::kZero1, {.pipeline = stages});
  for (int tensor = 2; tensor <= ranks / stages; ++tensor) {
    const bool fits = ranks % (stages * tensor) == 0 && ranks / nodes % tensor == 0;
    if (fits) add(StrategyType::kPipeline, {.tensor = tensor, .pipeline = stages});
  }
}

// Returns choices from the simplest to those that save most memory.
std::vector<Choice> ChoicesFor(int ranks, int nodes, bool of_devices) {
  if (ranks == 1 && of_devices) {
    return {{StrategyType::kDp}, {StrategyType::kPipeline}, {StrategyType::kModelParallel}};
  }
  if (ranks == 1) return {{StrategyType::kSingle}};
  std::vector<Choice> choices = {
      {StrategyType::kDdp}, {StrategyType::kZero1}, {StrategyType::kZero2}, {StrategyType::kZero3}};
  if (nodes > 1 && nodes < ranks) {
    choices.push_back({StrategyType::kZero3, {.shard = ranks / nodes}});
  }
  for (int tensor = 2; tensor <= ranks / nodes; ++tensor) {
    if (ranks % tensor == 0) choices.push_back({StrategyType::kTensorParallel, {.tensor = tensor}});
  }
  for (int stages = 2; stages <= ranks; ++stages) {
    if (ranks % stages == 0) choices.push_back({StrategyType::kPipeline, {.pipeline = stages}});
  }
  if (ranks >= 4) AddCombinations(ranks, nodes, choices);
  return choices;
}

// Returns a name such as "pipeline 2 x tensor 2 x data 2" or "zero1 x pipeline 2".
std::string NameOf(const Choice& choice, int ranks) {
  const auto& [type, dims, combined] = choice;
  std::string name;
  const auto add = [&](std::string_view word, int size) {
    if (size > 1) name += " x " + std::string(word) + " " + std::to_string(size);
  };
  add("pipeline", dims.pipeline);
  add(type == StrategyType::kTensorParallel ? Word(type) : "tensor", dims.tensor);
  const std::string_view word = Word(type);
  // The type names an axis, or the way in which replicas divide their state.
  const bool of_axis = name.starts_with(" x " + std::string(word));
  if (of_axis) {
    add("data", ranks / dims.tensor / dims.pipeline);
    name.erase(0, 3);
  } else {
    name.insert(0, word);
  }
  if (dims.shard > 0) name += " in " + std::to_string(ranks / dims.shard) + " replicas";
  return name;
}

// Returns the keys of the choice that the config does not have already.
std::vector<std::string> KeysOf(const Choice& choice, const StrategyConfig& config) {
  std::vector<std::string> keys = {"strategy.type=" + std::string(Word(choice.type))};
  const auto add = [&keys](const char* key, int wanted, int64_t given, int64_t otherwise) {
    if (wanted == (given == 0 ? otherwise : given)) return;
    // If a size is not for a type, only 0 is allowed.
    const int value = wanted == otherwise ? 0 : wanted;
    keys.push_back(std::string("strategy.") + key + "=" + std::to_string(value));
  };
  // By default the axis takes all ranks if the strategy has its name.
  const bool tensor = choice.type == StrategyType::kTensorParallel;
  const bool pipeline = choice.type == StrategyType::kPipeline;
  add("tensor_parallel_size", choice.dims.tensor, config.tensor_parallel_size, tensor ? 0 : 1);
  add("pipeline_parallel_size", choice.dims.pipeline, config.pipeline_parallel_size,
      pipeline ? 0 : 1);
  add("shard_size", choice.dims.shard, config.shard_size, 0);
  return keys;
}

Fit FitOf(double needed, const std::optional<MemoryLimit>& limit) {
  if (!limit) return Fit::kPerhaps;
  const auto there = static_cast<double>(limit->bytes);
  if (needed * (1 + kEstimateTolerance) <= there) return Fit::kYes;
  return needed * (1 - kEstimateTolerance) < there ? Fit::kPerhaps : Fit::kNo;
}

std::optional<size_t> FirstThat(const std::vector<PlannedStrategy>& strategies, Fit fit) {
  const auto found = std::ranges::find_if(
      strategies, [fit](const auto& one) { return one.cost && one.fit == fit; });
  if (found == strategies.end()) return std::nullopt;
  return static_cast<size_t>(found - strategies.begin());
}

void Take(StrategyPlan& plan) {
  plan.taken = FirstThat(plan.strategies, Fit::kYes);
  const bool surely = plan.taken.has_value();
  if (!surely) plan.taken = FirstThat(plan.strategies, Fit::kPerhaps);
  if (!plan.taken) {
    plan.why =
        "none fits: lower training.per_device_train_batch_size, set "
        "training.gradient_checkpointing, or start more machines";
    return;
  }
  const PlannedStrategy& taken = plan.strategies[*plan.taken];
  const std::string room =
      ByteText(taken.cost->machine) +
      (plan.limit ? " of " + ByteText(static_cast<double>(plan.limit->bytes)) : std::string()) +
      (plan.nodes > 1 ? " on each machine" : "");
  if (!surely) {
    plan.why = "it needs about as much as there is, " + room + ", and those before it need more";
  } else if (*plan.taken == 0) {
    plan.why = "it fits, " + room + ", and none is simpler or waits less for other ranks";
  } else {
    plan.why = "the first that fits, " + room + ": those before it may not";
  }
}

const char* Text(Fit fit) {
  return std::array{"yes", "perhaps", "no"}[static_cast<size_t>(fit)];
}

std::string Padded(const std::string& text, size_t width, bool right) {
  const std::string space(width - std::min(width, text.size()), ' ');
  return right ? space + text : text + space;
}

using Row = std::array<std::string, 6>;

std::string Table(const std::vector<Row>& rows) {
  std::array<size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      text += last ? row[i] + "\n" : Padded(row[i], widths[i], /*right=*/i > 0) + "  ";
    }
  }
  return text;
}

std::string Percent(double share) {
  return share == 0 ? "-" : std::to_string(std::lround(share * 100)) + " %";
}

}  // namespace

StrategyCost CostOf(const Job& job, const RankInfo& rank) {
  const ParallelDims dims = ValueOrThrow(ResolveDims(job.config, rank.world_size));
  StrategyCost cost{.samples = PlanFor(job, rank.world_size).step_samples,
                    .memory = EstimateMemory(job, rank.world_size, rank.local_world_size),
                    .sent = SentBytes(job, dims, rank.local_world_size)};
  RankInfo node = rank;
  for (node.rank = 0; node.rank < node.world_size; node.rank += node.local_world_size) {
    cost.machine = std::max(cost.machine, MemoryOfNode(job, node));
  }
  // If stages run one by one, each micro-batch waits for the end of the previous micro-batch.
  const auto accumulated = static_cast<double>(job.config.training.gradient_accumulation_steps);
  const double batches =
      dims.one_by_one ? 1 : accumulated * static_cast<double>(SplitOfMicroBatch(job, dims));
  cost.idle = (dims.stages - 1) / (batches + dims.stages - 1);
  return cost;
}

StrategyPlan PlanStrategies(Job job,
                            const ReadConfigWith& read,
                            const RankInfo& rank,
                            const std::optional<MemoryLimit>& limit) {
  StrategyPlan plan{.ranks = rank.world_size,
                    .nodes = rank.world_size / rank.local_world_size,
                    .limit = limit,
                    .strategies = {},
                    .taken = {},
                    .why = {}};
  const ModelConfig model = job.config.model;  // with the values of its folder
  const StrategyConfig given = job.config.strategy;
  for (const Choice& choice : ChoicesFor(plan.ranks, plan.nodes, !given.devices.empty())) {
    PlannedStrategy planned{.name = NameOf(choice, plan.ranks), .keys = KeysOf(choice, given)};
    try {
      job.config = read(planned.keys);
      job.config.model = model;
      planned.cost = CostOf(job, rank);
      planned.fit = FitOf(planned.cost->machine, limit);
    } catch (const Failure& failure) {
      if (choice.combined) continue;
      planned.refused = failure.error().what;
      std::ranges::replace(planned.refused, '\n', ' ');
    }
    plan.strategies.push_back(std::move(planned));
  }
  Take(plan);
  return plan;
}

std::string PlanText(const StrategyPlan& plan) {
  std::vector<Row> rows = {
      {"strategy", "samples a step", "memory a rank", "sent a step", "idle", "fits"}};
  std::string refused;
  for (const PlannedStrategy& one : plan.strategies) {
    if (!one.cost) {
      refused += "Not " + one.name + ": " + one.refused + "\n";
      continue;
    }
    rows.push_back({one.name, std::to_string(one.cost->samples),
                    (one.cost->memory.complete ? "" : "> ") +
                        ByteText(one.cost->memory.total() - one.cost->memory.worker),
                    ByteText(one.cost->sent), Percent(one.cost->idle), Text(one.fit)});
  }
  const std::string limit =
      plan.limit ? " of " + ByteText(static_cast<double>(plan.limit->bytes)) : "";
  std::string text = CountText(plan.ranks, "rank") + " on " + CountText(plan.nodes, "machine") +
                     limit + ", each process " + ByteText(MemoryEstimate().worker) + " and:\n\n" +
                     Table(rows) + (refused.empty() ? "" : "\n" + refused) + "\n";
  if (!plan.taken) return text + "Take none: " + plan.why + ".\n";
  const PlannedStrategy& taken = plan.strategies[*plan.taken];
  text += "Take " + taken.name + ": " + plan.why + ".\n ";
  for (const std::string& key : taken.keys) text += " --set " + key;
  return text + "\n";
}

std::string PlanJson(const StrategyPlan& plan) {
  using Json = nlohmann::ordered_json;
  Json strategies = Json::array();
  for (const PlannedStrategy& one : plan.strategies) {
    Json entry = {{"name", one.name}, {"set", one.keys}};
    if (!one.cost) {
      entry["refused"] = one.refused;
    } else {
      const MemoryEstimate& memory = one.cost->memory;
      entry.update({{"samples_per_step", one.cost->samples},
                    {"memory_per_rank",
                     {{"total", std::llround(memory.total())},
                      {"worker", std::llround(memory.worker)},
                      {"parameters", std::llround(memory.parameters)},
                      {"gradients", std::llround(memory.gradients)},
                      {"optimizer", std::llround(memory.optimizer)},
                      {"checkpoint", std::llround(memory.checkpoint)},
                      {"activations", std::llround(memory.activations)},
                      {"batches", std::llround(memory.batches)},
                      {"complete", memory.complete}}},
                    {"memory_per_machine", std::llround(one.cost->machine)},
                    {"sent_per_step", std::llround(one.cost->sent)},
                    {"idle_share", one.cost->idle},
                    {"fits", Text(one.fit)}});
    }
    strategies.push_back(std::move(entry));
  }
  const Json taken = plan.taken ? Json(plan.strategies[*plan.taken].name) : Json();
  const Json limit = plan.limit ? Json(plan.limit->bytes) : Json();
  return Json({{"ranks", plan.ranks},
               {"nodes", plan.nodes},
               {"memory_of_machine", limit},
               {"strategies", strategies},
               {"take", taken},
               {"why", plan.why}})
             .dump(2) +
         "\n";
}

}  // namespace ddprun::trainer
