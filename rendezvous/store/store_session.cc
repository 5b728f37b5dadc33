#include "rendezvous/store/store_session.h"

#include <sys/socket.h>

#include <cerrno>

#include <asio/error.hpp>

#include "rendezvous/net/address.h"
#include "rendezvous/net/socket.h"

namespace ddprun::rendezvous {

namespace {

using asio::posix::stream_descriptor;

// An idle connection keeps at most this capacity after a large reply.
constexpr size_t kKeptCapacityBytes = 16 << 10;

Error NotValidated() {
  return {.title = "NOT A STORE CLIENT",
          .what = "The connection did not begin as TCPStore clients do.",
          .page = "store-protocol"};
}

SocketEnd EndOfSocket(const stream_descriptor& socket, int (*name)(int, sockaddr*, socklen_t*)) {
  const int fd = const_cast<stream_descriptor&>(socket).native_handle();  // not const in asio
  return EndOf(fd, name);
}

std::string EndText(const SocketEnd& end) {
  return end.port == 0 ? "unknown" : EndpointText(end.address, end.port);
}

}  // namespace

StoreSession::StoreSession(asio::io_context& io,
                           UniqueFd fd,
                           bool passed,
                           ConnectionId id,
                           const WireLimits& limits,
                           size_t max_unsent_bytes,
                           std::span<char> scratch,
                           Owner& owner)
    : socket_(io, fd.release()),
      passed_(passed),
      id_(id),
      decoder_(limits),
      max_unsent_bytes_(max_unsent_bytes),
      scratch_(scratch),
      owner_(&owner),
      since_(std::chrono::steady_clock::now()) {
  TuneConnection(socket_.native_handle());
}

void StoreSession::Start() {
  ArmRead();
}

void StoreSession::Queue(const Reply& reply) {
  EncodeReply(reply, out_);
}

void StoreSession::Flush() {
  if (!open() || running_) return;  // a running session sends at its end
  Send();
  if (open() && unsent_bytes() > 0) ArmWrite();
  Account();
}

void StoreSession::Close() {
  owner_ = nullptr;
  asio::error_code ignored;
  socket_.close(ignored);
}

std::string StoreSession::peer() const {
  return EndText(peer_end());
}

std::string StoreSession::own() const {
  return EndText(own_end());
}

SocketEnd StoreSession::peer_end() const {
  return EndOfSocket(socket_, getpeername);
}

SocketEnd StoreSession::own_end() const {
  return EndOfSocket(socket_, getsockname);
}

void StoreSession::ArmRead() {
  if (std::exchange(reading_, true)) return;
  socket_.async_wait(stream_descriptor::wait_read,
                     [self = shared_from_this()](const asio::error_code& error) {
                       self->reading_ = false;
                       if (!error && self->open()) self->OnReadable();
                     });
}

void StoreSession::ArmWrite() {
  if (std::exchange(writing_, true)) return;
  since_ = std::chrono::steady_clock::now();
  owner_->OnStalled();
  socket_.async_wait(stream_descriptor::wait_write,
                     [self = shared_from_this()](const asio::error_code& error) {
                       self->writing_ = false;
                       if (!error && self->open()) self->OnWritable();
                     });
}

void StoreSession::OnReadable() {
  const ssize_t count = recv(socket_.native_handle(), scratch_.data(), scratch_.size(), 0);
  if (count > 0) {
    const std::string_view received(scratch_.data(), static_cast<size_t>(count));
    const bool first = !std::exchange(begun_, true);
    if (first && owner_->IsForeign(*this, received.front())) return HandOver(std::string(received));
    return Run(received);
  }
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return ArmRead();
  End();
}

void StoreSession::HandOver(std::string received) {
  Owner* const owner = std::exchange(owner_, nullptr);
  owner->OnForeign(id_, UniqueFd(socket_.release()), std::move(received));
}

void StoreSession::OnWritable() {
  Send();
  if (!open()) return;
  if (unsent_bytes() > max_unsent_bytes_) {
    ArmWrite();
    return Account();
  }
  const std::string held = std::exchange(backlog_, {});
  Run(held);
}

void StoreSession::Run(std::string_view input) {
  while (true) {
    running_ = true;
    Decode(input);
    running_ = false;
    if (!open()) return;
    Send();
    if (!open()) return;
    if (input.empty() || unsent_bytes() > max_unsent_bytes_) break;
  }
  backlog_.assign(input);
  if (unsent_bytes() > 0) ArmWrite();
  if (backlog_.empty() && unsent_bytes() <= max_unsent_bytes_) ArmRead();
  Account();
}

void StoreSession::Decode(std::string_view& input) {
  while (!input.empty() && open() && unsent_bytes() <= max_unsent_bytes_) {
    Request request;
    const Result<bool> complete = decoder_.Next(input, request);
    if (complete.has_value() && !*complete) return;
    if (!complete.has_value() || !HandleRequest(std::move(request)).ok()) {
      if (open()) Send();
      if (open()) End();
      return;
    }
  }
}

Status StoreSession::HandleRequest(Request request) {
  if (request.op == Op::kValidate) {
    if (request.nonce != kValidateMagic) return NotValidated();
    validated_ = true;
    return {};
  }
  if (!validated_) return NotValidated();
  return owner_->OnRequest(id_, std::move(request));
}

void StoreSession::Send() {
  while (unsent_bytes() > 0) {
    const ssize_t count =
        send(socket_.native_handle(), out_.data() + sent_, unsent_bytes(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return DropSent();
    if (count < 0) return End();
    sent_ += static_cast<size_t>(count);
  }
  if (out_.capacity() > kKeptCapacityBytes) out_ = std::string();
  out_.clear();
  sent_ = 0;
}

// Drops bytes that are sent, if they are many, because dropping copies the rest.
void StoreSession::DropSent() {
  if (sent_ < kKeptCapacityBytes || sent_ < out_.size() / 2) return;
  out_ = out_.substr(sent_);
  sent_ = 0;
}

void StoreSession::Account() {
  if (!open()) return;
  // out_ includes bytes that are sent but not dropped.
  const size_t now = decoder_.held_bytes() + out_.size() + backlog_.size();
  const size_t before = std::exchange(held_bytes_, now);
  if (now != before && !owner_->OnHeldBytes(before, now)) End();
}

void StoreSession::End() {
  Owner* const owner = owner_;
  Close();
  owner->OnEnded(id_);
}

}  // namespace ddprun::rendezvous
