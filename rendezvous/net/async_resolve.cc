#include "rendezvous/net/async_resolve.h"

#include <fcntl.h>
#include <unistd.h>

#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>

#include "base/unique_fd.h"

namespace ddprun::rendezvous {

namespace {

// The thread of the look-up writes this. It has nothing of the loop, because the thread may
// outlive the loop.
struct Outcome {
  std::mutex mutex;
  std::optional<Result<std::vector<asio::ip::address>>> result;
  UniqueFd done;  // the thread closes it when it has set `result`
};

void StartThread(const std::shared_ptr<Outcome>& outcome, const std::string& host) {
  const auto finish = [outcome](Result<std::vector<asio::ip::address>> result) {
    const std::lock_guard lock(outcome->mutex);
    outcome->result = std::move(result);
    outcome->done.reset();
  };
  try {
    std::thread([finish, host] { finish(ResolveByNameServer(host)); }).detach();
  } catch (const std::system_error& error) {
    finish(SystemError("starting a thread that looks up " + host, error.code().value()));
  }
}

}  // namespace

struct AsyncResolve::Shared : std::enable_shared_from_this<AsyncResolve::Shared> {
  explicit Shared(asio::io_context& io) : pipe(io) {}

  void Deliver(const Result<std::vector<asio::ip::address>>& result) {
    if (Handler called = std::exchange(handler, nullptr)) called(result);
  }

  asio::posix::stream_descriptor pipe;
  Handler handler;
};

AsyncResolve::AsyncResolve(asio::io_context& io, const std::string& host, Handler handler)
    : shared_(std::make_shared<Shared>(io)) {
  shared_->handler = std::move(handler);
  const auto self = shared_;
  auto local = ResolveLocally(host);
  int ends[2];
  if (!local.empty() || pipe2(ends, O_CLOEXEC) != 0) {
    const int problem = errno;
    asio::post(io, [self, local = std::move(local), problem] {
      if (local.empty()) return self->Deliver(SystemError("creating a pipe", problem));
      self->Deliver(local);
    });
    return;
  }
  const auto outcome = std::make_shared<Outcome>();
  outcome->done.reset(ends[1]);
  shared_->pipe.assign(ends[0]);
  shared_->pipe.async_wait(asio::posix::stream_descriptor::wait_read,
                           [self, outcome](const asio::error_code& error) {
                             if (error) return;
                             const std::lock_guard lock(outcome->mutex);
                             self->Deliver(*outcome->result);
                           });
  StartThread(outcome, host);
}

AsyncResolve::~AsyncResolve() {
  shared_->handler = nullptr;
  asio::error_code ignored;
  shared_->pipe.close(ignored);
}

}  // namespace ddprun::rendezvous
