// Elects the host that leads a job's rendezvous, among the hosts of --rdzv_endpoint=A,B,C. Pure:
// messages and time in, messages out.
//
// The leader holds a lease from a majority of the hosts. A host that has granted a lease grants no
// other one before that lease has ended, and any two majorities share a host: so there are never
// two leaders. Nothing is kept on a disk. A host that has just started may have forgotten what it
// granted, so it grants nothing for the time of a lease, except if all hosts have just started.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::rendezvous {

using ElectionTime = std::chrono::steady_clock::time_point;

// A host's question to each host, itself included.
struct Ballot {
  enum class Kind {
    kLook,     // asks for the state of the vote only
    kLead,     // asks for a lease, or for a longer one
    kRelease,  // gives a lease back that no majority granted
  };
  Kind kind = Kind::kLook;
  std::string job;  // the name of the job and the list of its hosts
  int candidate = 0;
  // In kLead and kRelease; each new leader has a greater one. `process` is a random number of the
  // candidate's process, so that a late message is not taken for one of its next process.
  int64_t epoch = 0;
  uint64_t process = 0;
  std::chrono::milliseconds lease{0};
  // In kLead: the ids of all hosts if none of them has granted anything; otherwise empty.
  std::vector<uint64_t> all_new = {};
};

// A host's answer.
struct Vote {
  bool granted = false;
  uint64_t voter = 0;                 // the id of the host's process
  int64_t epoch = 0;                  // the greatest that it has granted
  int leader = -1;                    // who has its lease; -1 means nobody
  std::chrono::milliseconds left{0};  // of that lease
};

// Answers the ballots of any number of jobs, for one host.
class Voter {
 public:
  // `id` is a random number, which no other process has.
  Voter(uint64_t id, ElectionTime started) : id_(id), started_(started) {}

  Vote OnBallot(const Ballot& ballot, ElectionTime now);
  // Returns the host that has this host's lease of the job, or -1.
  int LeaderOf(const std::string& job, ElectionTime now) const;
  size_t num_jobs() const { return grants_.size(); }

 private:
  struct Grant {
    int64_t epoch = 0;
    int leader = -1;
    ElectionTime until;
    bool is_first = false;  // nothing was granted before it
    uint64_t process = 0;   // the leader's
  };

  static bool HoldsLease(const Grant& held, const Ballot& ballot);
  bool MayGrant(const Grant& held, const Ballot& ballot, ElectionTime now) const;
  bool HasRoom(const std::string& job, ElectionTime now);

  const uint64_t id_;
  const ElectionTime started_;
  std::map<std::string, Grant> grants_;
};

// One of the hosts, which wants to lead if no host does.
class Campaign {
 public:
  struct Rules {
    std::string job;
    int own = 0;    // the number of this host in the list
    int hosts = 3;  // an odd number
    std::chrono::milliseconds lease{15'000};
    uint64_t process = 0;  // a random number, which no other process has
  };

  explicit Campaign(Rules rules)
      : rules_(std::move(rules)), random_(static_cast<unsigned>(rules_.process)) {}

  // Call it at next(). Returns the ballot that each host has to get now. Votes on earlier ballots
  // are not asked for any longer.
  std::optional<Ballot> OnTime(ElectionTime now);
  // The answer of a host to the last ballot. Returns the ballot that follows from it.
  std::optional<Ballot> OnVote(int host, const Vote& vote, ElectionTime now);
  // Returns whether this host leads. It does not if its lease has ended, even if OnTime() was late.
  bool Leads(ElectionTime now) const { return phase_ == Phase::kLeading && now < lease_end_; }
  // Returns whether no host has led before this one, which all hosts chose when they started.
  bool is_first() const { return is_first_; }
  // Returns when OnTime() has something to do.
  ElectionTime next() const {
    return phase_ == Phase::kLeading ? std::min(next_, lease_end_) : next_;
  }

 private:
  enum class Phase { kNew, kIdle, kLooking, kAsking, kLeading };

  Ballot Ask(Ballot::Kind kind, ElectionTime now, std::chrono::milliseconds answer_time);
  // Returns how long hosts may take to answer: long enough for a busy machine, but a host that does
  // not answer costs this time.
  std::chrono::milliseconds AnswerTime() const;
  std::optional<Ballot> Decide(ElectionTime now);
  std::optional<Ballot> CountGrants(ElectionTime now);
  void Pause(std::chrono::milliseconds least, ElectionTime now);
  std::chrono::milliseconds Part(int parts) const { return rules_.lease / parts; }
  size_t majority() const { return static_cast<size_t>(rules_.hosts) / 2 + 1; }
  bool all_answered() const { return votes_.size() == static_cast<size_t>(rules_.hosts); }

  const Rules rules_;
  std::mt19937 random_;
  Phase phase_ = Phase::kNew;
  ElectionTime next_;
  ElectionTime asked_;      // when the last ballot was sent
  ElectionTime lease_end_;  // of the lease that a majority granted
  bool is_first_ = false;
  int64_t epoch_ = 0;          // of this host's lease, or of the one that it asks for
  std::map<int, Vote> votes_;  // on the last ballot, by host
};

}  // namespace ddprun::rendezvous
