#include "launcher/agent/lost_workers.h"

namespace ddprun::launcher {

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

// Returns nullopt if there is no generation.
std::optional<WorkerSpec> LostWorkers::SpecOf(const Result<int>& generation, int local_rank) const {
  if (!generation) return std::nullopt;
  WorkerSpec spec = handlers_.spec_of(local_rank);
  spec.env.Set("DDPRUN_GENERATION", std::to_string(*generation));
  return spec;
}

void LostWorkers::OnLoss(const Loss& loss) {
  if (loss.node_rank != membership_.node_rank) {
    const Status begun = replacements_.BeginElsewhere(loss.rank, loss.generation);
    if (!begun.ok()) handlers_.on_stuck(begun.error().what);
    return;
  }
  const auto announced = announced_.extract(loss.local_rank);
  if (announced.empty()) return;
  const auto& [lost, then] = announced.mapped();
  then(SpecOf(replacements_.Begin(lost, loss.generation), loss.local_rank));
}

// Without the board, a lost worker is a failed one.
void LostWorkers::OnNoLosses(const std::string& reason) {
  surroundings_.log.Debug("lost workers are not replaced: " + reason);
  for (const auto& [local_rank, lost] : std::exchange(announced_, {})) lost.second(std::nullopt);
}

}  // namespace ddprun::launcher
