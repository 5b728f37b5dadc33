#include "trainer/comm/mailbox_wire.h"

#include <algorithm>

namespace ddprun::trainer {

namespace {

// Time that the end of a group waits for messages that have not left.
constexpr std::chrono::seconds kFarewell{5};
// A wait on the transport ends after this time, because it does not notice messages from this node.
constexpr std::chrono::milliseconds kLookAround{5};

}  // namespace

Status MailboxWire::Send(const void* data, size_t bytes, int to, int tag) {
  const auto* begin = static_cast<const std::byte*>(data);
  const auto copy = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
  const Transport::Handle sent = wire_.transport->Send(
      wire_.peers[static_cast<size_t>(to)],
      WireTag(wire_.group, WireStream::kMessage, rank_, static_cast<uint32_t>(tag)), copy->data(),
      copy->size(), copy);
  if (sent->done.load(std::memory_order_acquire)) return sent->status;
  leaving_.push_back(sent);
  if (!escort_.joinable()) escort_ = std::thread([this] { SeeOff(); });
  left_.notify_all();
  return {};
}

// Runs in a thread, because a large message leaves only while a thread progresses the transport. It
// continues after Mailbox::Cancel(), because these sends are done for their callers.
void MailboxWire::SeeOff() {
  static const std::atomic<bool> never = false;
  std::unique_lock lock(mutex_);
  Clock::time_point farewell = Clock::time_point::max();
  while (Clock::now() < farewell) {
    if (stopping_ && farewell == Clock::time_point::max()) farewell = Clock::now() + kFarewell;
    const uint64_t seen = completions();
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

Transport::Handle MailboxWire::Receive(void* data, size_t bytes, int from, int tag) {
  return wire_.transport->Receive(
      wire_.peers[static_cast<size_t>(from)],
      WireTag(wire_.group, WireStream::kMessage, from, static_cast<uint32_t>(tag)), data, bytes);
}

void MailboxWire::TakeOthers(std::deque<std::shared_ptr<Message>>& messages) {
  wire_.transport->Progress();
  const uint64_t prefix = WireTag(wire_.group, WireStream::kMessage, 0, 0);
  while (const auto arrived = wire_.transport->Find(prefix, kWireStreamMask)) {
    const Envelope envelope{.bytes = arrived->bytes,
                            .heap_offset = 0,
                            .tag = static_cast<int32_t>(arrived->tag & 0xffffffff)};
    auto message = std::make_shared<Message>(Message{envelope, SenderOfTag(arrived->tag)});
    message->data.resize(arrived->bytes);
    message->transfer = wire_.transport->Take(*arrived, message->data.data());
    messages.push_back(std::move(message));
  }
}

void MailboxWire::WaitForNews(uint64_t seen,
                              Clock::time_point deadline,
                              const std::atomic<bool>& cancelled) {
  const Clock::time_point soon = Clock::now() + kLookAround;
  wire_.transport->WaitForCompletion(seen, {std::min(deadline, soon), cancelled});
}

void MailboxWire::Finish() {
  if (!escort_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  left_.notify_all();
  escort_.join();
}

}  // namespace ddprun::trainer
