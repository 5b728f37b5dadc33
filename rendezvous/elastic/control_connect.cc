#include "rendezvous/elastic/control_connect.h"

#include <sys/socket.h>

#include <cerrno>
#include <deque>
#include <optional>
#include <utility>

#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/net/async_resolve.h"
#include "rendezvous/net/socket.h"

namespace ddprun::rendezvous {

namespace {

using asio::posix::stream_descriptor;

constexpr std::chrono::milliseconds kAddressTimeout{3000};

}  // namespace

class ControlConnect::Impl : public std::enable_shared_from_this<ControlConnect::Impl> {
 public:
  Impl(asio::io_context& io, HostPort endpoint, std::function<void(Result<UniqueFd>)> handler)
      : io_(io),
        endpoint_(std::move(endpoint)),
        handler_(std::move(handler)),
        socket_(io),
        timer_(io) {}

  void Start() {
    resolve_.emplace(io_, endpoint_.host,
                     [self = shared_from_this()](Result<std::vector<asio::ip::address>> found) {
                       if (!self->handler_) return;
                       if (!found.has_value()) return self->Finish(std::move(found).error());
                       self->addresses_.assign(found->begin(), found->end());
                       self->TryNext();
                     });
  }

  void Stop() {
    handler_ = nullptr;
    resolve_.reset();
    timer_.cancel();
    asio::error_code ignored;
    socket_.close(ignored);
  }

 private:
  void TryNext() {
    if (addresses_.empty()) {
      Error error;
      error.what = problem_.empty() ? endpoint_.host + " has no address" : problem_;
      return Finish(std::move(error));
    }
    address_ = addresses_.front();
    addresses_.pop_front();
    const asio::ip::tcp::endpoint target(address_, endpoint_.port);
    UniqueFd fd(socket(target.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return Failed(errno);
    const auto size = static_cast<socklen_t>(target.size());
    if (connect(fd.get(), target.data(), size) != 0 && errno != EINPROGRESS) return Failed(errno);
    asio::error_code ignored;
    socket_.close(ignored);
    socket_.assign(fd.release());
    const int attempt = ++attempt_;
    timer_.expires_after(kAddressTimeout);
    timer_.async_wait([self = shared_from_this(), attempt](const asio::error_code& error) {
      if (!error && self->handler_ && attempt == self->attempt_) self->Failed(ETIMEDOUT);
    });
    socket_.async_wait(stream_descriptor::wait_write,
                       [self = shared_from_this(), attempt](const asio::error_code& error) {
                         if (error || !self->handler_ || attempt != self->attempt_) return;
                         self->OnConnected();
                       });
  }

  void OnConnected() {
    int failure = 0;
    socklen_t size = sizeof failure;
    const int fd = socket_.native_handle();
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0) failure = errno;
    if (failure == 0 && ConnectedToItself(fd)) failure = ECONNREFUSED;
    if (failure != 0) return Failed(failure);
    Finish(UniqueFd(socket_.release()));
  }

  void Failed(int problem) {
    ++attempt_;
    problem_ = address_.to_string() + ": " + ErrnoText(problem) + " (errno " +
               std::to_string(problem) + ")";
    asio::error_code ignored;
    socket_.close(ignored);
    TryNext();
  }

  void Finish(Result<UniqueFd> result) {
    timer_.cancel();
    const auto handler = std::exchange(handler_, nullptr);
    handler(std::move(result));
  }

  asio::io_context& io_;
  const HostPort endpoint_;
  std::function<void(Result<UniqueFd>)> handler_;
  std::optional<AsyncResolve> resolve_;
  std::deque<asio::ip::address> addresses_;
  asio::ip::address address_;
  stream_descriptor socket_;
  asio::steady_timer timer_;
  int attempt_ = 0;  // handlers of earlier attempts do nothing
  std::string problem_;
};

ControlConnect::ControlConnect(asio::io_context& io,
                               HostPort endpoint,
                               std::function<void(Result<UniqueFd>)> handler)
    : impl_(std::make_shared<Impl>(io, std::move(endpoint), std::move(handler))) {
  impl_->Start();
}

ControlConnect::~ControlConnect() {
  impl_->Stop();
}

}  // namespace ddprun::rendezvous
