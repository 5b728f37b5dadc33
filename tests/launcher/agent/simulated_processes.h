// Simulated processes: workers, their left children, and the worker template, which speaks its
// protocol over the real socket. Checks that the agent keeps its promises to them.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/flight_recorder.h"
#include "launcher/hang/worker_activity.h"
#include "launcher/process/process.h"
#include "tests/launcher/agent/simulated_world.h"

namespace ddprun::launcher {

class SimulatedTemplate;

// Chances of events, in percent.
struct ProcessChances {
  int start_failure = 0;
  int unkillable = 0;
  int template_trouble = 0;
  int recovers = 0;          // workers say that they can continue if one is lost
  int wrong_pages = 0;       // a worker overwrites its page of the flight recorder
  bool may_replace = false;  // a lost worker may be replaced
};

class SimulatedProcesses : public ProcessHost {
 public:
  SimulatedProcesses(World& world, ProcessChances chances, milliseconds grace, bool saves);
  ~SimulatedProcesses() override;

  Result<pid_t> Spawn(const SpawnRequest& request) override;
  void ExpectAdoption(bool on) override;
  Status Adopt(pid_t pid) override;
  void MarkPipe(int) override {}
  void Signal(pid_t pid, int signal) override;
  void SignalGroup(pid_t pid, int signal) override { Signal(pid, signal); }
  void EndStrays(std::set<pid_t> sessions,
                 std::function<void(std::vector<pid_t> left)> done) override;
  std::vector<pid_t> EndAll() override;
  void OnExit(ExitHandler handler) override { handler_ = std::move(handler); }

  // Makes a process that is not adopted yet, for the template. `recorders` is the node's file.
  pid_t Fork();
  pid_t Fork(int local_rank, const UniqueFd& recorders);
  void Die(pid_t pid, const ProcessExit& exit);
  bool lives(pid_t pid) const { return !processes_.at(pid).exit; }
  // Workers that do not hang always use CPU time.
  std::map<pid_t, milliseconds> CpuTimes(std::span<const LiveWorker> workers) const;
  // Leaves out unkillable workers, and if `known_only`, forked ones that were not adopted.
  bool any_worker_lives(bool known_only = false) const;
  // Checks that a stop signal that means to hurry has killed all workers.
  void CheckHurry();
  bool any_worker_computes() const;
  bool unkillable_left() const;
  const ProcessChances& chances() const { return chances_; }

 private:
  enum class Kind { kWorker, kTemplate, kStray };
  struct Process {
    Kind kind = Kind::kWorker;
    size_t generation = 0;
    bool known = false;  // spawned or adopted
    Clock::Time known_since = {};
    bool reaped = false;
    std::optional<ProcessExit> exit = {};
    bool suspended = false;
    bool computes = true;
    std::set<int> pending = {};  // signals that wait for SIGCONT
    bool unkillable = false;
    bool killed = false;
    std::optional<Clock::Time> told_at = {};
    milliseconds grace{0};  // its time to end from then on
    int local_rank = -1;
    std::unique_ptr<FlightRecorder> recorder = {};
    bool page_is_wrong = false;
  };

  pid_t Add(Kind kind);
  void CheckStart(bool of_worker);
  void BeginLife(pid_t pid);
  void Deliver(pid_t pid);
  void OnTold(pid_t pid, int signal);
  void CheckKill(const Process& process);
  void CheckRestIsTold(size_t generation);
  void CheckSweepFollows(size_t generation);
  void React(pid_t pid, int signal);
  void SayThatTheyRecover(size_t generation);
  bool IsReplaced(const Process& process) const;
  void OnReplaced(pid_t pid);
  Generation& GenerationOf(const Process& process);

  World& world_;
  const ProcessChances chances_;
  const milliseconds grace_;
  const bool saves_;  // workers save when they are told to stop
  ExitHandler handler_;
  pid_t next_pid_ = 1 << 23;  // above the kernel's pids
  std::map<pid_t, Process> processes_;
  std::map<pid_t, std::unique_ptr<SimulatedTemplate>> templates_;
  bool expects_adoption_ = false;
  bool sweeping_ = false;
};

}  // namespace ddprun::launcher
