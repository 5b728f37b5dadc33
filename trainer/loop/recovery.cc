// How a run goes on when a rank was killed and another process has taken its place.
//
// Ranks wait for each other in the same operations, and whoever is lost has come to all before its
// first missing one: so all others end in the same one, too (NodeMeeting). The last operation of a
// step comes before its update (StepReports::SumEarly). So either no rank has updated anything and
// all do the step again, or all finish it, and it is the next one that is done again.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <chrono>
#include <cstdio>

#include "base/failure.h"
#include "trainer/comm/host_process_group.h"
#include "trainer/compute/matmul.h"
#include "trainer/loop/resume.h"
#include "trainer/loop/trainer.h"
#include "trainer/parallel/peer_state.h"

namespace ddprun::trainer {

void Trainer::RecoverFromPeers() {
  // One group for everything; a device has others.
  if (mesh_.data.group != mesh_.control) return;
  group_ = dynamic_cast<HostProcessGroup*>(mesh_.control.get());
}

void Trainer::SetRecovers(bool recovers) {
  if (group_ == nullptr) return;
  recorder_->SetRecovers(recovers ? std::optional<int>(group_->generation()) : std::nullopt);
}

StepResult Trainer::DoStep(const std::vector<Batch>& micro_batches) {
  if (group_ == nullptr) return TrainStep(micro_batches);
  // Not before a step of this generation is done: what kills a rank twice would do so for ever.
  // Nor in the last one, after which nobody waits for anybody.
  SetRecovers(!first_step_ && step_ + 1 < plan_.total_steps);
  const std::vector<at::Tensor> buffers = model_->buffers();
  std::vector<at::Tensor> before;
  for (const at::Tensor& buffer : buffers) before.push_back(buffer.clone());
  try {
    return TrainStep(micro_batches);
  } catch (const Failure& failure) {
    if (failure.error().page != kRankLost) throw;
  }
  const std::vector<LostWorker> lost = recorder_->LostIn(group_->generation());
  log_.Debug("a rank was lost", {{"steps_done", std::to_string(step_)}});
  for (size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(before[i]);
  group_->Renew();
  first_step_ = true;
  mesh_.SetTimeout(std::chrono::seconds(job_.config.comm.init_timeout_seconds));
  strategy_->Rejoin();
  ShareState(/*joins=*/false);
  StepResult result = TrainStep(micro_batches);
  for (const LostWorker& worker : lost) {
    if (observers_ == nullptr) break;
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - worker.time;
    char text[96];
    std::snprintf(text, sizeof text, "rank %d was lost: recovered in %.2f s, in step %lld",
                  worker.local_rank, time.count(), static_cast<long long>(step_ + 1));
    observers_->Note(text);
  }
  return result;
}

void Trainer::TakePlace() {
  ShareState(/*joins=*/true);
  sampler_.Restore(position_);
}

// A collective.
void Trainer::ShareState(bool joins) {
  const at::Tensor joiner = at::tensor({joins ? mesh_.world.rank : 0}, at::kLong);
  AllReduceOnHost(mesh_.control.get(), joiner, c10d::ReduceOp::MAX);
  const int other = static_cast<int>(joiner.item<int64_t>());
  const bool takes_part = mesh_.world.rank == 0 || mesh_.world.rank == other;
  // Of the two alone: the others have it.
  const auto pair = group_->NewGroup(takes_part ? std::vector<int>{0, other} : std::vector<int>());
  if (pair != nullptr) {
    CopyState(*pair, [this](StateVisitor& visitor) {
      NameState(visitor);
      checkpoints_.NameUndone(visitor);
      int64_t engine = static_cast<int64_t>(CurrentMatmulEngine());
      visitor.Section("compute.");
      visitor.Number("engine", engine);
      UseMatmulEngine(static_cast<MatmulEngine>(engine));
    });
  }
  const CheckpointPlace place = checkpoints_.GiveUp(observers_, group_->generation());
  const SharedStart start =
      ShareStart(mesh_.control.get(), {.place = place, .checkpoint = ""});
  if (!start.place.folder.empty()) checkpoints_.SaveTo(start.place);
}

}  // namespace ddprun::trainer
