#include "tests/launcher/agent/simulated_rendezvous.h"

#include <utility>

namespace ddprun::launcher {

SimulatedRendezvous::SimulatedRendezvous(World& world,
                                         const SimulatedProcesses& processes,
                                         RendezvousChances chances,
                                         int nnodes,
                                         int max_restarts)
    : world_(world),
      processes_(processes),
      chances_(chances),
      nnodes_(nnodes),
      max_restarts_(max_restarts) {}

void SimulatedRendezvous::After(milliseconds time, std::function<void()> what) {
  world_.After(time, [alive = std::weak_ptr(alive_), what = std::move(what)] {
    if (!alive.expired()) what();
  });
}

void SimulatedRendezvous::Join(std::function<void(Result<rendezvous::Membership>)> done) {
  world_.Note("the node joins");
  if (world_.stop_signal) world_.Violate("the node joins after the stop");
  if (joined_ && !end_) world_.Violate("the node joins anew in the middle of a round");
  if (processes_.any_worker_lives()) world_.Violate("the node joins while workers live");
  if (joined_ && end_->kind == RoundEnd::Kind::kJobFailed) world_.Violate("a dead job is joined");
  if (joined_ && end_->kind == RoundEnd::Kind::kRestart) ++restart_count_;
  if (joined_) world_.generations.back().over = true;
  joined_ = false;
  end_.reset();
  After(world_.Between(0, 800), [this, join = ++joins_, done = std::move(done)] {
    if (join != joins_) return;  // another one since
    if (world_.Chance(chances_.error)) {
      world_.trouble = true;
      return done(SimulatedError(Code::kRendezvous));
    }
    joined_ = true;
    ++round_;
    world_.peer_end.reset();
    world_.generations.push_back({.restart_count = restart_count_, .began = world_.clock.Now()});
    world_.Note("round " + std::to_string(round_) + " begins");
    if (world_.Chance(chances_.peer_ends)) {
      After(world_.Between(0, 15'000), [this, round = round_] {
        if (round == round_) PeerEnds();
      });
    }
    done(rendezvous::Membership{.round = round_,
                                .restart_count = restart_count_,
                                .nnodes = nnodes_,
                                .world_size = nnodes_,
                                .master_addr = "localhost",
                                .master_port = 1});
  });
}

std::function<void()> SimulatedRendezvous::Telling(std::function<void()> done) {
  world_.telling = true;
  return [this, done = std::move(done), telling = ++telling_] {
    if (telling == telling_) world_.telling = false;
    done();
  };
}

void SimulatedRendezvous::PeerEnds() {
  if (end_ || !handler_ || !joined_) return;
  RoundEnd::Kind kind = RoundEnd::Kind::kJobFailed;
  if (world_.Chance(30)) kind = RoundEnd::Kind::kRegroup;
  if (world_.Chance(40) && restart_count_ < max_restarts_) kind = RoundEnd::Kind::kRestart;
  end_ = RoundEnd{.kind = kind,
                  .node_rank = 1,
                  .message = "rank 9 exited with code 33",
                  .exit_code = kPeerCode};
  world_.Note("another node ends the round, kind " + std::to_string(static_cast<int>(kind)));
  world_.peer_end = kind;
  world_.generations.back().ended = true;
  on_left_ = nullptr;
  handler_(*end_);
}

void SimulatedRendezvous::EndRound(RoundEnd end, std::function<void()> done) {
  world_.Note("this node ends the round, kind " + std::to_string(static_cast<int>(end.kind)));
  if (!joined_) world_.Violate("a round is ended that has not begun");
  if (end.kind == RoundEnd::Kind::kRestart) {
    if (restart_count_ >= max_restarts_) world_.Violate("more restarts than are allowed");
    if (world_.stop_signal) world_.Violate("a restart is asked for after the stop");
  }
  milliseconds time = alone() ? milliseconds(0) : world_.Between(0, 1000);
  // How the round ended may become known late, and there is no next one before.
  const bool slow = !alone() && end.kind == RoundEnd::Kind::kRestart && world_.Chance(20);
  if (slow) time = world_.Between(1000, 30'000);
  const bool late = !alone() && world_.Chance(chances_.peer_ends / 2);
  end.node_rank = 0;
  if (!late && !end_) end_ = std::move(end);
  After(time, [this, done = Telling(std::move(done))] {
    PeerEnds();  // if another node was faster
    done();
  });
}

void SimulatedRendezvous::Withdraw(RoundEnd, std::function<void()> done) {
  world_.Note("this node withdraws");
  if (!joined_) world_.Violate("a node withdraws that has not joined");
  After(world_.Between(0, 1000), [this, done = Telling(std::move(done))] {
    if (world_.Chance(chances_.peer_ends)) PeerEnds();
    done();
  });
}

void SimulatedRendezvous::Leave(std::function<void(Status)> done) {
  world_.Note("this node leaves");
  if (processes_.any_worker_lives()) world_.Violate("the node leaves while workers live");
  on_left_ = std::move(done);
  if (world_.Chance(chances_.peer_ends)) After(world_.Between(0, 5000), [this] { PeerEnds(); });
  After(world_.Between(0, 5000), [this] {
    if (!on_left_) return;
    const bool fails = world_.Chance(chances_.error);
    (fails ? world_.trouble : world_.left) = true;
    const auto left = std::exchange(on_left_, nullptr);
    left(fails ? Status(SimulatedError(Code::kRendezvous)) : Status());
  });
}

}  // namespace ddprun::launcher
