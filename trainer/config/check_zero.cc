// What does not go together with ranks that share out the state of the model.
#include <string>

#include "trainer/config/checker.h"

namespace ddprun::trainer {

void Checker::CheckZero() {
  const StrategyConfig& strategy = config_.strategy;
  const bool first = strategy.type == StrategyType::kZero1;
  const bool third = strategy.type == StrategyType::kZero3;
  if (!first && !third && strategy.type != StrategyType::kZero2) return;
  const std::string type = "strategy.type \"" + std::string(Word(strategy.type)) + "\"";
  const std::string all_first = type + " updates when the gradients of all ranks are there:";
  const std::string remove = "Remove the key, or train with \"ddp\".";
  const std::string remove1 = "Remove the key, or train with \"ddp\" or \"zero1\".";
  const StrategyConfig defaults;
  const auto refuse = [&](bool given, const char* key, const std::string& why,
                          const std::string& hint) {
    if (given) Conflict(key, why, hint);
  };
  refuse(strategy.optimizer_in_backward, "strategy.optimizer_in_backward", all_first, remove);
  refuse(strategy.overlap == Overlap::kStep || strategy.overlap == Overlap::kBoth,
         "strategy.overlap", all_first, remove);
  refuse(strategy.comm_hook == CommHookType::kPostLocalSgd, "strategy.comm_hook",
         "Ranks that take steps of their own need all of the optimizer's state, which " + type +
             " shares out:",
         remove);
  refuse(config_.training.virtual_ranks > 0, "training.virtual_ranks",
         "Sums over virtual ranks do not depend on the number of processes; what " + type +
             " shares out does:",
         remove);
  if (first) return;
  refuse(strategy.pipeline_parallel_size > 1, "strategy.pipeline_parallel_size",
         "A stage of a pipeline adds up the gradients of many micro-batches and uses its weights "
         "for each of them, so that " +
             type + " would send both again and again:",
         "Train with \"zero1\", which shares out the optimizer's state alone.");
  const std::string reduced = type + " sends each rank the gradients that it keeps:";
  refuse(strategy.comm_hook != CommHookType::kNone &&
             strategy.comm_hook != CommHookType::kPostLocalSgd,
         "strategy.comm_hook", reduced, remove1);
  refuse(config_.comm.algorithm != AllReduceAlgorithm::kDirect, "comm.algorithm",
         reduced + " there is no all-reduce of them.", remove1);
  refuse(strategy.overlap == Overlap::kNone, "strategy.overlap",
         type + " sends gradients on in backward, as there is no room for all of them:", remove1);
  refuse(strategy.find_unused_parameters, "strategy.find_unused_parameters",
         type + " needs every parameter in every step:", remove1);
  refuse(strategy.static_graph, "strategy.static_graph",
         type + " needs every parameter in every step:", remove1);
  refuse(strategy.bucket_cap_mb.automatic, "strategy.bucket_cap_mb",
         type + " keeps the layout that it begins with:", "Give a number of MiB.");
  refuse(strategy.first_bucket_mb != defaults.first_bucket_mb, "strategy.first_bucket_mb",
         type + " has no first bucket of a size of its own:", remove1);
  refuse(third && !strategy.bucket_cap_mb.automatic &&
             strategy.bucket_cap_mb.number != defaults.bucket_cap_mb.number,
         "strategy.bucket_cap_mb", type + " sends the gradients of one block together:",
         "Remove the key, or train with \"zero2\".");
  refuse(config_.report.state_hashes, "report.state_hashes",
         type + " has on no rank what is to be hashed:", remove1);
  const ModelType model = config_.model.type;
  refuse(third && (model == ModelType::kTorchScript || model == ModelType::kPlugin),
         "strategy.type",
         "model.type \"" + std::string(Word(model)) +
             "\" brings code of its own, whose blocks are not known here:",
         "Train with \"zero2\", which shares out gradients and the optimizer's state.");
}

}  // namespace ddprun::trainer
