#include "rendezvous/elastic/election.h"

#include <algorithm>
#include <utility>

namespace ddprun::rendezvous {

using std::chrono::milliseconds;

namespace {

// More jobs than one place serves at a time. A limit, because strangers may name any job.
constexpr size_t kManyJobs = 1000;
constexpr milliseconds kUsualAnswerTime{1000};

}  // namespace

bool Voter::HoldsLease(const Grant& held, const Ballot& ballot) {
  return held.leader == ballot.candidate && held.epoch == ballot.epoch &&
         held.process == ballot.process;
}

bool Voter::MayGrant(const Grant& held, const Ballot& ballot, ElectionTime now) const {
  if (HoldsLease(held, ballot)) return true;
  if (now < held.until || ballot.epoch < held.epoch) return false;
  if (now >= started_ + ballot.lease) return true;
  // The list says that no host had granted anything when this very process was asked.
  return held.epoch == 0 && std::ranges::find(ballot.all_new, id_) != ballot.all_new.end();
}

// Forgets leases that have ended if there are many.
bool Voter::HasRoom(const std::string& job, ElectionTime now) {
  if (grants_.size() < kManyJobs || grants_.contains(job)) return true;
  std::erase_if(grants_, [now](const auto& grant) { return grant.second.until <= now; });
  return grants_.size() < kManyJobs;
}

Vote Voter::OnBallot(const Ballot& ballot, ElectionTime now) {
  const bool has_room = HasRoom(ballot.job, now);
  const auto found = grants_.find(ballot.job);
  Grant held = found == grants_.end() ? Grant() : found->second;
  bool granted = false;
  if (ballot.kind == Ballot::Kind::kLead && has_room && MayGrant(held, ballot, now)) {
    granted = true;
    const bool is_first = held.epoch == 0 || (held.is_first && held.epoch == ballot.epoch);
    held = {ballot.epoch, ballot.candidate, now + ballot.lease, is_first, ballot.process};
    grants_[ballot.job] = held;
  }
  if (ballot.kind == Ballot::Kind::kRelease && HoldsLease(held, ballot)) {
    // As if it had never been granted.
    held = {.epoch = held.is_first ? 0 : held.epoch, .until = now};
    grants_[ballot.job] = held;
  }
  Vote vote{.granted = granted, .voter = id_, .epoch = held.epoch};
  if (now >= held.until) return vote;
  vote.leader = held.leader;
  vote.left = std::chrono::ceil<milliseconds>(held.until - now);
  return vote;
}

int Voter::LeaderOf(const std::string& job, ElectionTime now) const {
  const auto found = grants_.find(job);
  return found != grants_.end() && now < found->second.until ? found->second.leader : -1;
}

// A lease is counted from `now`, before the ballot leaves, so it ends here before it ends at the
// hosts that grant it.
Ballot Campaign::Ask(Ballot::Kind kind, ElectionTime now, milliseconds answer_time) {
  votes_.clear();
  asked_ = now;
  next_ = now + answer_time;
  return {.kind = kind,
          .job = rules_.job,
          .candidate = rules_.own,
          .epoch = kind == Ballot::Kind::kLook ? 0 : epoch_,
          .process = rules_.process,
          .lease = rules_.lease};
}

milliseconds Campaign::AnswerTime() const {
  return std::min(Part(3), std::max(Part(20), kUsualAnswerTime));
}

// Hosts pause for different times, because two that ask at the same time may both fail.
void Campaign::Pause(milliseconds least, ElectionTime now) {
  phase_ = Phase::kIdle;
  const auto most = static_cast<unsigned>(std::max<int64_t>(1, Part(50).count()));
  next_ = now + least + Part(100) + milliseconds(random_() % most);
}

std::optional<Ballot> Campaign::OnTime(ElectionTime now) {
  if (now < next()) return std::nullopt;
  switch (phase_) {
    case Phase::kNew:  // hosts that start together do not ask together
      phase_ = Phase::kIdle;
      next_ = now + rules_.own * Part(100);
      return OnTime(now);
    case Phase::kIdle:
      phase_ = Phase::kLooking;
      return Ask(Ballot::Kind::kLook, now, AnswerTime());
    case Phase::kLooking:
      return Decide(now);
    case Phase::kAsking: {
      Pause(milliseconds(0), now);
      const ElectionTime again = next_;
      Ballot release = Ask(Ballot::Kind::kRelease, now, milliseconds(0));
      next_ = again;
      return release;
    }
    case Phase::kLeading:
      if (Leads(now)) return Ask(Ballot::Kind::kLead, now, Part(5));
      Pause(milliseconds(0), now);
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Ballot> Campaign::OnVote(int host, const Vote& vote, ElectionTime now) {
  votes_[host] = vote;
  switch (phase_) {
    case Phase::kNew:
    case Phase::kIdle:
      return std::nullopt;
    case Phase::kLooking:
      return all_answered() ? Decide(now) : std::nullopt;
    case Phase::kAsking:
    case Phase::kLeading:
      return CountGrants(now);
  }
  return std::nullopt;
}

std::optional<Ballot> Campaign::Decide(ElectionTime now) {
  milliseconds left{0};
  int64_t epoch = 0;
  std::vector<uint64_t> ids;
  for (const auto& [host, vote] : votes_) {
    if (vote.leader >= 0) left = std::max(left, vote.left);
    epoch = std::max(epoch, vote.epoch);
    ids.push_back(vote.voter);
  }
  if (left > milliseconds(0) || votes_.size() < majority()) {
    Pause(left, now);
    return std::nullopt;
  }
  is_first_ = epoch == 0 && all_answered();
  epoch_ = std::max(epoch_, epoch) + 1;
  phase_ = Phase::kAsking;
  Ballot ballot = Ask(Ballot::Kind::kLead, now, AnswerTime());
  if (is_first_) ballot.all_new = std::move(ids);
  return ballot;
}

std::optional<Ballot> Campaign::CountGrants(ElectionTime now) {
  const auto granted = static_cast<size_t>(
      std::ranges::count_if(votes_, [](const auto& vote) { return vote.second.granted; }));
  if (granted >= majority()) {
    // A tenth is for clocks that do not run equally fast.
    lease_end_ = std::max(lease_end_, asked_ + rules_.lease - Part(10));
    if (phase_ == Phase::kAsking) next_ = now + Part(5);
    phase_ = Phase::kLeading;
  } else if (phase_ == Phase::kAsking && all_answered()) {
    next_ = now;
    return OnTime(now);
  }
  return std::nullopt;
}

}  // namespace ddprun::rendezvous
