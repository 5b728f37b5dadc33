#include "launcher/agent/lost_workers.h"

#include "base/check.h"

namespace ddprun::launcher {

namespace {

// The workers of the other nodes wait meanwhile.
constexpr std::chrono::seconds kNewsTime{10};

void SetGeneration(int generation, WorkerSpec& worker) {
  worker.env.Set("DDPRUN_GENERATION", std::to_string(generation));
}

}  // namespace

LostWorkers::LostWorkers(const GroupSurroundings& surroundings,
                         const rendezvous::RendezvousOptions& options,
                         const rendezvous::Membership& membership,
                         Replacements replacements,
                         Handlers handlers)
    : surroundings_(surroundings),
      membership_(membership),
      handlers_(std::move(handlers)),
      replacements_(std::move(replacements)) {
  if (one_node() || !surroundings_.open_losses) return;
  losses_ = surroundings_.open_losses(options, membership_,
                                      {[this](const Loss& loss) { OnLoss(loss); },
                                       [this](const std::string& why) { OnNoLosses(why); }});
}

void LostWorkers::Find(const WorkerRecord& lost, const GroupHandlers::Then& then) {
  if (!handlers_.can_fork() || !replacements_.CanReplace(lost, one_node())) {
    return then(std::nullopt);
  }
  if (one_node()) return then(SpecOf(replacements_.Begin(lost), lost.local_rank));
  if (losses_ == nullptr || losses_->failed()) return then(std::nullopt);
  announced_[lost.local_rank] = {lost, then};
  losses_->Announce(
      {.node_rank = membership_.node_rank, .local_rank = lost.local_rank, .rank = lost.rank});
}

bool LostWorkers::CanOutliveNode() const {
  return losses_ != nullptr && !losses_->failed() && announced_.empty() && awaited_.empty() &&
         replacements_.CanOutliveNode();
}

void LostWorkers::ReplaceNode(std::vector<WorkerSpec> workers, StartAll start) {
  DDPRUN_CHECK(losses_ != nullptr);
  newcomers_ = std::move(workers);
  start_all_ = std::move(start);
  alarm_ = surroundings_.clock.Set(
      kNewsTime, [this] { OnNoLosses("the other nodes have not heard of the new workers"); });
  for (const WorkerSpec& worker : newcomers_) {
    awaited_.insert(worker.local_rank);
    losses_->Announce(
        {.node_rank = membership_.node_rank, .local_rank = worker.local_rank, .rank = worker.rank});
  }
}

// Returns nullopt if there is no generation.
std::optional<WorkerSpec> LostWorkers::SpecOf(const Result<int>& generation, int local_rank) const {
  if (!generation) return std::nullopt;
  WorkerSpec spec = handlers_.spec_of(local_rank);
  SetGeneration(*generation, spec);
  return spec;
}

void LostWorkers::OnLoss(const Loss& loss) {
  if (loss.node_rank != membership_.node_rank) {
    const Status begun = replacements_.BeginElsewhere(loss.rank, loss.generation);
    if (!begun.ok()) handlers_.on_stuck(begun.error().what);
    return;
  }
  if (awaited_.erase(loss.local_rank) > 0) {
    if (awaited_.empty()) StartNewcomers(loss.generation);
    return;
  }
  const auto announced = announced_.extract(loss.local_rank);
  if (announced.empty()) return;
  const auto& [lost, then] = announced.mapped();
  then(SpecOf(replacements_.Begin(lost, loss.generation), loss.local_rank));
}

// They begin together, in the generation of the last of them.
void LostWorkers::StartNewcomers(int generation) {
  alarm_.reset();
  for (WorkerSpec& worker : newcomers_) {
    replacements_.BeginHere(worker.local_rank, generation);
    SetGeneration(generation, worker);
  }
  start_all_(newcomers_);
}

// Without the board, a lost worker is a failed one.
void LostWorkers::OnNoLosses(const std::string& reason) {
  if (!std::exchange(awaited_, {}).empty()) return handlers_.on_stuck(reason);
  surroundings_.log.Debug("lost workers are not replaced: " + reason);
  for (const auto& [local_rank, lost] : std::exchange(announced_, {})) lost.second(std::nullopt);
}

}  // namespace ddprun::launcher
