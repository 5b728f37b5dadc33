// What one attempt does about hangs: the workers' flight recorder, the watch, and the end of a
// group that hangs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "base/unique_fd.h"
#include "launcher/agent/worker_group.h"
#include "launcher/agent/worker_spec.h"
#include "launcher/hang/hang_watch.h"

namespace ddprun::launcher {

// Loop thread only. Destroying it ends the watch.
class HangGuard {
 public:
  // The store server that the workers use, if this node hosts it; else nullptr.
  using StoreOf = std::function<const rendezvous::StoreServer*()>;

  static Result<std::unique_ptr<HangGuard>> Create(asio::io_context& io,
                                                   std::chrono::milliseconds timeout,
                                                   int local_world_size);

  int recorder_fd() const { return recorder_.get(); }
  // What lets a worker tell where it is when it is ended. `base`: the user's own environment.
  void Prepare(std::vector<WorkerSpec>& specs, const Environment& base) const;

  // From now on `group`, which outlives this, is watched. When it hangs, its workers get SIGABRT,
  // on which they print their stacks, and SIGKILL a little later; `on_hang` is called in between.
  Status Watch(WorkerGroup& group, StoreOf store, std::function<void(const HangReport&)> on_hang);

  const std::optional<HangReport>& report() const { return report_; }

 private:
  HangGuard(asio::io_context& io,
            std::chrono::milliseconds timeout,
            int local_world_size,
            UniqueFd recorder)
      : io_(io),
        timeout_(timeout),
        local_world_size_(local_world_size),
        recorder_(std::move(recorder)),
        dump_timer_(io) {}
  void End(WorkerGroup& group);

  asio::io_context& io_;
  const std::chrono::milliseconds timeout_;
  const int local_world_size_;
  const UniqueFd recorder_;
  asio::steady_timer dump_timer_;
  std::unique_ptr<HangWatch> watch_;
  std::optional<HangReport> report_;
  // A wait that has ended but not been told of yet finds this expired.
  std::shared_ptr<HangGuard*> alive_ = std::make_shared<HangGuard*>(this);
};

}  // namespace ddprun::launcher
