// The messages of Mailbox between nodes.
#include <algorithm>

#include "trainer/comm/mailbox.h"

namespace ddprun::trainer {

namespace {

// How long the end of a group waits for messages that have not left.
constexpr std::chrono::seconds kFarewell{5};
// A wait on the transport ends after this time, because it does not notice messages from this node.
constexpr std::chrono::milliseconds kLookAround{5};

}  // namespace

// REQUIRES: mutex_ is held, as for all below but SeeOff and WaitForWire.
void Mailbox::SendByWire(Transfer& transfer, const void* data) {
  const auto* bytes = static_cast<const std::byte*>(data);
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes, bytes + transfer.bytes);
  const uint64_t tag = WireTag(wire_.group, WireStream::kMessage, placement_.rank(),
                               static_cast<uint32_t>(transfer.tag));
  const Transport::Handle sent = wire_.transport->Send(
      wire_.peers[static_cast<size_t>(transfer.peer)], tag, copy->data(), copy->size(), copy);
  if (sent->done.load(std::memory_order_acquire)) {
    transfer.status = sent->status;
    return;
  }
  leaving_.push_back(sent);
  if (!escort_.joinable()) escort_ = std::thread([this] { SeeOff(); });
  left_.notify_all();
}

// Runs in a thread, because a large message leaves only while a thread progresses the transport. It
// continues after Cancel(), because these sends are done for their callers.
void Mailbox::SeeOff() {
  static const std::atomic<bool> never = false;
  std::unique_lock lock(mutex_);
  Clock::time_point farewell = Clock::time_point::max();
  while (Clock::now() < farewell) {
    if (stopping_ && farewell == Clock::time_point::max()) farewell = Clock::now() + kFarewell;
    const uint64_t seen = wire_.transport->completions();
    while (!leaving_.empty() && leaving_.front()->done) leaving_.pop_front();
    if (leaving_.empty()) {
      if (stopping_) return;
      left_.wait(lock, [&] { return stopping_ || !leaving_.empty(); });
      continue;
    }
    lock.unlock();
    wire_.transport->WaitForCompletion(seen, {Clock::now() + kLookAround, never});
    lock.lock();
  }
}

// Returns whether the transport should receive the message directly into its place. Not while an
// earlier receive from any rank has the first claim on messages.
bool Mailbox::IsForWire(std::list<Handle>::iterator place) const {
  const Transfer& receive = **place;
  if (receive.done || receive.wire != nullptr || receive.arriving != nullptr) return false;
  if (receive.peer == kAnyRank || OnThisNode(receive.peer)) return false;
  return std::none_of(receives_.begin(), std::list<Handle>::const_iterator(place),
                      [&](const Handle& earlier) {
                        return earlier->peer == kAnyRank && earlier->tag == receive.tag;
                      });
}

void Mailbox::ReceiveFromWire(Transfer& receive) {
  const uint64_t tag =
      WireTag(wire_.group, WireStream::kMessage, receive.peer, static_cast<uint32_t>(receive.tag));
  receive.wire = wire_.transport->Receive(wire_.peers[static_cast<size_t>(receive.peer)], tag,
                                          receive.data, receive.bytes);
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

// If there are receives from any rank, takes the messages from other nodes that no receive has
// asked for by rank.
void Mailbox::TakeFromWire() {
  const bool asked = std::any_of(receives_.begin(), receives_.end(),
                                 [](const Handle& receive) { return receive->peer == kAnyRank; });
  if (!asked) return;
  wire_.transport->Progress();
  const uint64_t prefix = WireTag(wire_.group, WireStream::kMessage, 0, 0);
  while (const auto arrived = wire_.transport->Find(prefix, kWireStreamMask)) {
    auto wire = std::make_shared<WireMessage>();
    wire->data.resize(arrived->bytes);
    wire->transfer = wire_.transport->Take(*arrived, wire->data.data());
    const Envelope envelope{.bytes = arrived->bytes,
                            .heap_offset = 0,
                            .tag = static_cast<int32_t>(arrived->tag & 0xffffffff)};
    unexpected_.push_back(
        std::make_shared<Message>(Message{envelope, FromOfTag(arrived->tag), std::move(wire)}));
  }
}

void Mailbox::WaitForWire(uint64_t seen, Clock::time_point deadline) {
  const Clock::time_point soon = Clock::now() + kLookAround;
  wire_.transport->WaitForCompletion(seen, {std::min(deadline, soon), cancelled_});
}

}  // namespace ddprun::trainer
