#include "trainer/comm/net/tcp_frames.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ddprun::trainer {

namespace {

// Frames that one system call writes.
constexpr size_t kFramesAtOnce = 8;
// One call takes about this much. A rank that only wrote for a while would let those wait who write
// to it.
constexpr size_t kMostBytesAtOnce = size_t{256} << 10;

}  // namespace

void TcpFrameWriter::Add(TcpHandle send) {
  frames_.push_back({.header = {.tag = send->tag, .bytes = send->room}, .send = std::move(send)});
}

TcpFrameWriter::Outcome TcpFrameWriter::Write(int socket) {
  std::array<iovec, 2 * kFramesAtOnce + 1> parts{};
  size_t count = 0;
  size_t total = 0;
  const auto add = [&](void* data, size_t bytes) {
    const size_t some = std::min(bytes, kMostBytesAtOnce - total);
    if (some == 0) return;
    parts[count++] = {data, some};
    total += some;
  };
  add(greeting_.data(), greeting_.size());
  size_t skip = written_;
  for (size_t i = 0; i < std::min(frames_.size(), kFramesAtOnce); ++i) {
    Frame& frame = frames_[i];
    const size_t head = std::min(skip, sizeof frame.header);
    add(reinterpret_cast<std::byte*>(&frame.header) + head, sizeof frame.header - head);
    add(frame.send->data + (skip - head), frame.send->room - (skip - head));
    skip = 0;
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  const ssize_t sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno == EINTR) return Outcome::kMore;
  if (sent < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK ? Outcome::kFull : Outcome::kFailed;
  }
  Advance(static_cast<size_t>(sent));
  if (idle()) return Outcome::kIdle;
  return static_cast<size_t>(sent) < total ? Outcome::kFull : Outcome::kMore;
}

void TcpFrameWriter::Advance(size_t bytes) {
  const size_t greeted = std::min(bytes, greeting_.size());
  greeting_.erase(0, greeted);
  written_ += bytes - greeted;
  while (!frames_.empty()) {
    const size_t whole = sizeof(TcpFrameHeader) + frames_.front().send->room;
    if (written_ < whole) break;
    written_ -= whole;
    const TcpHandle send = std::move(frames_.front().send);
    frames_.pop_front();
    send->Finish({}, send->room);
  }
}

void TcpFrameWriter::Fail(const Status& status) {
  greeting_.clear();
  for (const Frame& frame : std::exchange(frames_, {})) frame.send->Finish(status, 0);
}

int TcpFrameReader::Read(int socket, TcpInbox& inbox) {
  buffer_.resize(kBufferBytes);
  for (size_t taken = 0; taken < kMostBytesAtOnce;) {
    // Long data goes straight to its place, and what follows it into the buffer.
    std::byte* const place = Rest() > 0 ? message_->data() : nullptr;
    const size_t straight = place != nullptr ? Rest() : 0;
    std::array<iovec, 2> parts = {{{straight > 0 ? place + received_ : nullptr, straight},
                                   {buffer_.data() + end_, buffer_.size() - end_}}};
    msghdr message{};
    message.msg_iov = straight > 0 ? parts.data() : parts.data() + 1;
    message.msg_iovlen = straight > 0 ? 2 : 1;
    const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT);
    if (got == 0) return kEnded;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : errno;
    const auto bytes = static_cast<size_t>(got);
    const size_t direct = std::min(bytes, straight);
    const bool all = bytes == straight + parts[1].iov_len;
    end_ += bytes - direct;
    if (direct > 0) Count(direct, inbox);
    Parse(inbox);
    if (!all) return 0;  // the socket has no more
    taken += bytes;
  }
  return 0;
}

void TcpFrameReader::Count(size_t bytes, TcpInbox& inbox) {
  received_ += bytes;
  if (received_ == message_->bytes) inbox.End(std::exchange(message_, nullptr));
}

void TcpFrameReader::Parse(TcpInbox& inbox) {
  for (;;) {
    const std::byte* const next = buffer_.data() + begin_;
    const size_t have = end_ - begin_;
    if (message_) {
      const size_t part = std::min(have, Rest());
      std::byte* const place = message_->data();
      if (place != nullptr && part > 0) std::memcpy(place + received_, next, part);
      begin_ += part;
      Count(part, inbox);
      if (message_) break;
    } else if (have >= sizeof(TcpFrameHeader)) {
      TcpFrameHeader header;
      std::memcpy(&header, next, sizeof header);
      begin_ += sizeof header;
      received_ = 0;
      message_ = inbox.Begin(from_, header.tag, header.bytes);
    } else {
      break;
    }
  }
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

}  // namespace ddprun::trainer
