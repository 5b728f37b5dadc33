// Ends a round and the job on this node, and tells the other nodes and the user.
#include <utility>

#include <asio/post.hpp>

#include "launcher/agent/agent.h"
#include "launcher/agent/last_words.h"
#include "launcher/hang/hang_report.h"

namespace ddprun::launcher {

using Kind = rendezvous::RoundEnd::Kind;

void Agent::FailWith(Error error) {
  error_ = std::move(error);
  OnCannotGoOn(*error_);
}

void Agent::OnCannotGoOn(const Error& error) {
  // A template that refused its work has printed the reason on standard error.
  if (template_ != nullptr) refusal_ = template_->refusal();
  if (!error_) error_ = error;
  // This node joins nevertheless, because it has to tell the other nodes.
  if (!membership_ && plan_.options.several_nodes()) return;
  const std::string what = refusal_ ? " could not start its workers" : " failed: " + error_->what;
  EndRound({.message = Name() + what, .exit_code = refusal_.value_or(ExitStatus(error_->code))});
  On(AgentEvent::kEndAsked);
}

void Agent::EndRound(rendezvous::RoundEnd end) {
  if (!membership_ || round_end_) return;
  end.node_rank = membership_->node_rank;
  round_end_ = end;
  // A single node tells no other node, but its rendezvous counts restarts.
  if (end.kind == Kind::kJobFailed && !plan_.options.several_nodes()) return;
  log_.Debug("ending the round",
             {{"kind", std::string(NameOf(end.kind))}, {"message", end.message}});
  rendezvous_->EndRound(std::move(end), Telling());
}

std::function<void()> Agent::Telling() {
  is_told_ = false;
  return [this, telling = ++telling_] {
    if (telling != telling_) return;
    is_told_ = true;
    log_.Debug("the other nodes have been told");
    SettleSoon();
  };
}

void Agent::SettleSoon() {
  // Posts the event, because its action may destroy the object that calls this.
  asio::post(surroundings_.io, [this] {
    const bool gone = attempt_ == nullptr || attempt_->gone();
    if (settling() && gone && is_told_) On(AgentEvent::kSettled);
  });
}

int Agent::Finish() {
  if (template_ != nullptr) template_->Close();
  rendezvous_.reset();
  unkillable_ = surroundings_.processes.EndAll();
  if (template_ != nullptr) template_->FinishOutput();
  if (attempt_ != nullptr) {
    attempt_->group().FinishOutput();
    history_.EndAttempt(*attempt_, round_end_);
    surroundings_.console.err().WriteLines(HangText());
  }
  JobEnd end = DescribeEnd(plan_, Causes(), history_);
  if (!plan_.options.report_file.empty()) end.log = log_.LastLines();
  // If the back end assigns ranks, a rank that this node only asked for may be another node's.
  end.ranked = last_rank_ || plan_.options.backend->fixed || !plan_.options.several_nodes();
  SayLastWords(plan_, end, surroundings_.console, log_);
  return end.exit_code;
}

JobCauses Agent::Causes() const {
  JobCauses causes{.own_node_rank = node_rank(),
                   .several_nodes = plan_.options.several_nodes(),
                   .round_end = round_end_,
                   .error = error_,
                   .refusal = refusal_,
                   .stop_signal = stop_signal_,
                   .saves = plan_.target.is_trainer_config,
                   .unkillable = unkillable_};
  if (attempt_ == nullptr) return causes;
  const WorkerGroup& group = attempt_->group();
  if (group.first_failure()) causes.first_failure = group.Records()[*group.first_failure()].exit;
  causes.stopped_code = group.first_nonzero_code();
  causes.ended_well = group.ended_well();
  causes.failed_to_save = group.failed_to_save();
  causes.hung = attempt_->hang().has_value();
  return causes;
}

std::string Agent::HangText() const {
  const std::optional<HangReport> hang = attempt_ == nullptr ? std::nullopt : attempt_->hang();
  return hang ? RenderHang(*hang, plan_.target.name, plan_.color) : "";
}

}  // namespace ddprun::launcher
