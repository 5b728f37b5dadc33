#include "rendezvous/elastic/control_channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <functional>
#include <utility>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include <ddprun/error.h>
#include "base/untrusted_json.h"
#include "rendezvous/join_text.h"
#include "rendezvous/net/quote_received.h"
#include "rendezvous/net/socket.h"

namespace ddprun::rendezvous {

namespace {

using asio::posix::stream_descriptor;
using nlohmann::json;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr size_t kHeaderBytes = 4;
constexpr size_t kMaxMessageBytes = 256 << 10;
// If more bytes than this are unsent, the other end does not read.
constexpr size_t kMaxUnsentBytes = 4 << 20;

}  // namespace

class ControlChannel::Impl : public std::enable_shared_from_this<ControlChannel::Impl> {
 public:
  Impl(asio::io_context& io, End end, UniqueFd fd, std::string received, Handlers handlers)
      : io_(io),
        peer_(EndOf(fd.get(), getpeername).address),
        own_(EndOf(fd.get(), getsockname).address),
        handlers_(std::move(handlers)),
        socket_(io, fd.release()),
        timer_(io),
        in_(std::move(received)),
        greeted_(end == End::kNode) {
    if (end == End::kNode) out_ = kControlPreamble;
    TuneConnection(socket_.native_handle());
  }

  void Start() {
    asio::post(io_, [self = shared_from_this()] {
      if (self->open_ && self->Parse()) self->Arm(stream_descriptor::wait_read, &Impl::OnReadable);
    });
  }

  void Stop() {
    open_ = false;
    handlers_ = {};
    timer_.cancel();
    asio::error_code ignored;
    socket_.close(ignored);
  }

  void Send(const json& message) {
    if (!open_ || clogged_) return;
    const std::string text = message.dump(-1, ' ', false, json::error_handler_t::replace);
    // ddprun sends nothing so long. The other end would take this end for a stranger.
    assert(text.size() <= kMaxMessageBytes);
    if (text.size() > kMaxMessageBytes) return CloseSoon("a message to it is too long");
    for (int shift = 24; shift >= 0; shift -= 8) {
      out_.push_back(static_cast<char>((text.size() >> shift) & 0xff));
    }
    out_ += text;
    if (!writing_) Write();
    if (out_.size() > kMaxUnsentBytes) CloseSoon("it does not read");
  }

  // Closes from the loop, so that the caller of Send() does not lose the channel within the call.
  void CloseSoon(const char* reason) {
    clogged_ = true;
    asio::post(io_, [self = shared_from_this(), reason] { self->Close(reason); });
  }

  void StartKeepAlive(const KeepAlive& keep_alive) {
    keep_alive_ = keep_alive;
    last_heard_ = Clock::now();
    // Allows this time at least, because the kernel must not give up a silent host sooner than
    // the user wants.
    TuneConnection(socket_.native_handle(),
                   std::max(keep_alive.interval * keep_alive.max_attempts, milliseconds(15'000)));
    ArmTimer(keep_alive.interval);
  }

  const asio::ip::address& peer() const { return peer_; }
  const asio::ip::address& own() const { return own_; }

 private:
  void ArmTimer(milliseconds until) {
    timer_.expires_after(until);
    timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error && self->open_) self->OnTimer();
    });
  }

  void OnTimer() {
    const auto now = Clock::now();
    // The timer is late, because this process was stopped. Messages that came are not read yet.
    if (now - timer_.expiry() > keep_alive_.interval) last_heard_ = now;
    // In milliseconds, because a year times a million attempts is too large for nanoseconds.
    const milliseconds limit = keep_alive_.interval * keep_alive_.max_attempts;
    const auto left = limit - duration_cast<milliseconds>(now - last_heard_);
    if (left <= milliseconds(0)) {
      return Close("nothing was heard from it for " + DurationText(limit));
    }
    Send({{"type", "alive"}});
    if (open_) ArmTimer(std::min(keep_alive_.interval, left));
  }

  void Arm(stream_descriptor::wait_type wait, void (Impl::*then)()) {
    socket_.async_wait(wait, [self = shared_from_this(), then](const asio::error_code& error) {
      if (!error && self->open_) std::invoke(then, self);
    });
  }

  void OnReadable() {
    std::array<char, 16 << 10> buffer;
    const ssize_t count = recv(socket_.native_handle(), buffer.data(), buffer.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      return Arm(stream_descriptor::wait_read, &Impl::OnReadable);
    }
    if (count < 0) return Close("its connection failed: " + ErrnoText(errno));
    if (count == 0) return Close("its connection was closed");
    last_heard_ = Clock::now();
    in_.append(buffer.data(), static_cast<size_t>(count));
    if (Parse()) Arm(stream_descriptor::wait_read, &Impl::OnReadable);
  }

  // Passes complete messages to the handler. Returns false if the channel has ended meanwhile.
  bool Parse() {
    if (!greeted_ && in_.size() < kControlPreamble.size()) return true;
    if (!greeted_ && !in_.starts_with(kControlPreamble)) return CloseStranger(in_);
    size_t begin = std::exchange(greeted_, true) ? 0 : kControlPreamble.size();
    while (in_.size() - begin >= kHeaderBytes) {
      size_t length = 0;
      for (size_t i = 0; i < kHeaderBytes; ++i) {
        length = length << 8 | static_cast<unsigned char>(in_[begin + i]);
      }
      if (length > kMaxMessageBytes) return CloseStranger(std::string_view(in_).substr(begin));
      if (in_.size() - begin - kHeaderBytes < length) break;
      const auto text = std::string_view(in_).substr(begin + kHeaderBytes, length);
      const json message = ParseUntrustedJson(text);
      if (!message.is_object() || !message.contains("type") || !message["type"].is_string()) {
        return CloseStranger(text);
      }
      begin += kHeaderBytes + length;
      // Copies the handler, because it may destroy the channel.
      const auto handler = handlers_.on_message;
      handler(message);
      if (!open_) return false;
    }
    in_.erase(0, begin);
    return true;
  }

  void Write() {
    writing_ = false;
    while (!out_.empty()) {
      const ssize_t count = send(socket_.native_handle(), out_.data(), out_.size(), MSG_NOSIGNAL);
      if (count >= 0) {
        out_.erase(0, static_cast<size_t>(count));
      } else if (errno == EAGAIN) {
        writing_ = true;
        return Arm(stream_descriptor::wait_write, &Impl::Write);
      } else if (errno != EINTR) {
        return;  // reading reports how the connection ended
      }
    }
  }

  bool CloseStranger(std::string_view received) {
    const std::string heard = QuoteReceived(received);
    Close(heard.empty() ? "it sent something that is no message" : "it says " + heard, true);
    return false;
  }

  void Close(const std::string& reason, bool stranger = false) {
    if (!open_) return;
    const auto handler = std::move(handlers_.on_closed);
    Stop();
    handler(reason, stranger);
  }

  asio::io_context& io_;
  const asio::ip::address peer_;
  const asio::ip::address own_;
  Handlers handlers_;
  stream_descriptor socket_;
  asio::steady_timer timer_;
  KeepAlive keep_alive_;
  Clock::time_point last_heard_;
  std::string in_;
  bool greeted_;     // the preamble has come, or none is expected
  std::string out_;  // not sent yet
  bool writing_ = false;
  bool clogged_ = false;  // sends nothing more, and closes soon
  bool open_ = true;
};

ControlChannel::ControlChannel(
    asio::io_context& io, End end, UniqueFd fd, std::string received, Handlers handlers)
    : impl_(std::make_shared<Impl>(
          io, end, std::move(fd), std::move(received), std::move(handlers))) {
  impl_->Start();
}

ControlChannel::~ControlChannel() {
  impl_->Stop();
}

void ControlChannel::Send(const json& message) {
  impl_->Send(message);
}

void ControlChannel::StartKeepAlive(const KeepAlive& keep_alive) {
  impl_->StartKeepAlive(keep_alive);
}

asio::ip::address ControlChannel::peer() const {
  return impl_->peer();
}

asio::ip::address ControlChannel::own() const {
  return impl_->own();
}

}  // namespace ddprun::rendezvous
