// Mailbox: messages between nodes.
#include <algorithm>
#include <cstring>

#include "trainer/comm/mailbox.h"

namespace ddprun::trainer {

namespace {

// How long messages that have not left when the group ends are waited for.
constexpr std::chrono::seconds kFarewell{5};
// A wait on the transport does not see what arrives on the node meanwhile.
constexpr std::chrono::milliseconds kLookAround{5};

}  // namespace

// REQUIRES: mutex_ is held, as for all below but SeeOff and WaitForWire.
void Mailbox::SendByWire(Transfer& transfer, const void* data) {
  auto message = std::make_shared<WireMessage>();
  const auto* bytes = static_cast<const std::byte*>(data);
  message->data.assign(bytes, bytes + transfer.bytes);
  const uint64_t tag = WireTag(wire_.group, WireStream::kMessage, placement_.rank(),
                               static_cast<uint32_t>(transfer.tag));
  message->transfer = wire_.transport->Send(wire_.peers[static_cast<size_t>(transfer.peer)], tag,
                                            message->data.data(), message->data.size());
  transfer.done = true;
  if (message->transfer->done.load(std::memory_order_acquire)) {
    transfer.status = message->transfer->status;
    return;
  }
  leaving_.push_back(std::move(message));
  if (!escort_.joinable()) escort_ = std::thread([this] { SeeOff(); });
  left_.notify_all();
}

// A thread: a large message leaves only while somebody attends to the transport.
void Mailbox::SeeOff() {
  std::unique_lock lock(mutex_);
  Clock::time_point farewell = Clock::time_point::max();
  while (!cancelled_ && Clock::now() < farewell) {
    if (stopping_ && farewell == Clock::time_point::max()) farewell = Clock::now() + kFarewell;
    const uint64_t seen = wire_.transport->completions();
    while (!leaving_.empty() && leaving_.front()->transfer->done) leaving_.pop_front();
    if (leaving_.empty()) {
      if (stopping_) return;
      left_.wait(lock, [&] { return stopping_ || !leaving_.empty(); });
      continue;
    }
    lock.unlock();
    WaitForWire(seen, Clock::now() + std::chrono::milliseconds(100));
    lock.lock();
  }
}

void Mailbox::FinishFromWire(Transfer& receive) {
  if (!receive.wire->done.load(std::memory_order_acquire)) return;
  if (!receive.wire->status.ok()) {
    receive.status = receive.wire->status;
  } else if (receive.wire->bytes != receive.bytes) {
    receive.status = WrongSize(receive, receive.peer, receive.wire->bytes);
  }
  receive.done = true;
}

// For receives from any rank: what has come from other nodes and nobody has asked for by name.
void Mailbox::TakeFromWire() {
  const bool asked = std::any_of(receives_.begin(), receives_.end(),
                                 [](const Handle& receive) { return receive->peer == kAnyRank; });
  if (!asked) return;
  wire_.transport->Progress();
  const uint64_t prefix = WireTag(wire_.group, WireStream::kMessage, 0, 0);
  while (const auto arrived = wire_.transport->Find(prefix, kWireStreamMask)) {
    auto message = std::make_shared<WireMessage>();
    message->data.resize(arrived->bytes);
    message->transfer = wire_.transport->Take(*arrived, message->data.data());
    const Envelope envelope{.bytes = arrived->bytes,
                            .heap_offset = 0,
                            .tag = static_cast<int32_t>(arrived->tag & 0xffffffff)};
    unexpected_.push_back({envelope, FromOfTag(arrived->tag), std::move(message)});
  }
}

void Mailbox::WaitForWire(uint64_t seen, Clock::time_point deadline) {
  const Clock::time_point soon = Clock::now() + kLookAround;
  wire_.transport->WaitForCompletion(seen, {std::min(deadline, soon), cancelled_});
}

}  // namespace ddprun::trainer
