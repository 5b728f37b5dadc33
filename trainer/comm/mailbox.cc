#include "trainer/comm/mailbox.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "base/check.h"

namespace ddprun::trainer {

namespace {

// In front of a message: whether its receiver has copied it. Keeps messages at cache lines.
struct alignas(64) BlockHeader {
  std::atomic<uint32_t> released;
};

// How often a wait that more than one event can end looks again.
constexpr std::chrono::microseconds kPollTime{100};

BlockHeader& HeaderOf(std::byte* block) {
  return *reinterpret_cast<BlockHeader*>(block);
}

}  // namespace

Mailbox::Mailbox(SharedRegion& region, NodePlacement placement, GroupWire wire, Options options)
    : region_(region),
      placement_(std::move(placement)),
      wire_(std::move(wire)),
      options_(options) {}

// What has not been received yet stays: its receiver may come when this rank has ended.
Mailbox::~Mailbox() {
  if (escort_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    left_.notify_all();
    escort_.join();
  }
  for (const Handle& receive : receives_) {
    if (receive->wire != nullptr) wire_.transport->Cancel(receive->wire);
  }
  for (const Block& block : blocks_) {
    const bool released = HeaderOf(block.data).released.load(std::memory_order_acquire) != 0;
    if (released) region_.Free(self(), block.data);
  }
}

Mailbox::Handle Mailbox::Send(const void* data, size_t bytes, int to, int tag) {
  DDPRUN_CHECK(to >= 0 && to < placement_.size());
  auto transfer = std::make_shared<Transfer>();
  transfer->sends = true;
  transfer->peer = to;
  transfer->tag = tag;
  transfer->bytes = bytes;
  const std::lock_guard lock(mutex_);
  if (!OnThisNode(to)) {
    SendByWire(*transfer, data);
    return transfer;
  }
  const Block block = TakeBlock(bytes);
  if (block.data == nullptr) {
    transfer->done = true;
    transfer->status =
        Error{.code = Code::kFailed,
              .title = "OUT OF SHARED MEMORY",
              .where = SelfText(),
              .what = "No shared memory is left for a message of " + std::to_string(bytes) +
                      " bytes to rank " + std::to_string(to) + ".",
              .hint = "Receive messages before more are sent.",
              .page = "out-of-shared-memory"};
    return transfer;
  }
  transfer->block = block.data;
  if (bytes > 0) std::memcpy(block.data + sizeof(BlockHeader), data, bytes);
  sends_.push_back(transfer);
  Progress();
  return transfer;
}

Mailbox::Handle Mailbox::Receive(void* data, size_t bytes, int from, int tag) {
  DDPRUN_CHECK(from >= kAnyRank && from < placement_.size());
  auto transfer = std::make_shared<Transfer>();
  transfer->peer = from;
  transfer->tag = tag;
  transfer->bytes = bytes;
  transfer->data = data;
  const std::lock_guard lock(mutex_);
  if (from != kAnyRank && !OnThisNode(from) && !HasArrived(*transfer)) {
    const uint64_t wire_tag =
        WireTag(wire_.group, WireStream::kMessage, from, static_cast<uint32_t>(tag));
    transfer->wire =
        wire_.transport->Receive(wire_.peers[static_cast<size_t>(from)], wire_tag, data, bytes);
  }
  receives_.push_back(transfer);
  Progress();
  return transfer;
}

// A block that has come back and is not much too large, else a new one: fresh pages cost more
// than the copy.
Mailbox::Block Mailbox::TakeBlock(size_t bytes) {
  const size_t needed = sizeof(BlockHeader) + bytes;
  for (Block& block : blocks_) {
    if (HeaderOf(block.data).released.load(std::memory_order_acquire) == 0) continue;
    if (block.capacity < needed || block.capacity > 4 * needed + 4096) continue;
    HeaderOf(block.data).released.store(0, std::memory_order_relaxed);
    return block;
  }
  Block block{.data = region_.Allocate(self(), needed), .capacity = needed};
  if (block.data != nullptr) blocks_.push_back(block);
  return block;
}

bool Mailbox::Post(Transfer& transfer) {
  Channel& channel = region_.channel(self(), placement_.LocalOf(transfer.peer));
  const uint32_t written = channel.written.load(std::memory_order_relaxed);
  if (written - channel.read.load(std::memory_order_acquire) == Channel::kDepth) return false;
  const std::byte* heap = region_.heap(self());
  channel.envelopes[written % Channel::kDepth] = {
      .bytes = transfer.bytes,
      .heap_offset = static_cast<uint64_t>(transfer.block - heap),
      .tag = transfer.tag};
  AdvanceAndWake(channel.written, channel.sleepers, written + 1);
  transfer.done = true;
  return true;
}

void Mailbox::TakeArrived(int from) {
  Channel& channel = region_.channel(placement_.LocalOf(from), self());
  uint32_t read = channel.read.load(std::memory_order_relaxed);
  const uint32_t written = channel.written.load(std::memory_order_acquire);
  for (; read != written; ++read) {
    unexpected_.push_back({channel.envelopes[read % Channel::kDepth], from, {}});
  }
  channel.read.store(read, std::memory_order_release);
}

std::deque<Mailbox::Message>::iterator Mailbox::FirstFor(const Transfer& receive) {
  return std::find_if(unexpected_.begin(), unexpected_.end(), [&](const Message& arrived) {
    return arrived.envelope.tag == receive.tag &&
           (receive.peer == kAnyRank || receive.peer == arrived.from);
  });
}

bool Mailbox::HasArrived(const Transfer& receive) {
  return FirstFor(receive) != unexpected_.end();
}

void Mailbox::Match(Transfer& receive) {
  const auto message = FirstFor(receive);
  if (message == unexpected_.end()) return;
  const auto& wire = message->wire;
  if (wire != nullptr && !wire->transfer->done.load(std::memory_order_acquire)) return;
  receive.peer = message->from;
  std::byte* const block = wire != nullptr ? nullptr
                                           : region_.heap(placement_.LocalOf(message->from)) +
                                                 message->envelope.heap_offset;
  const std::byte* const data = wire != nullptr ? wire->data.data() : block + sizeof(BlockHeader);
  if (wire != nullptr && !wire->transfer->status.ok()) {
    receive.status = wire->transfer->status;
  } else if (message->envelope.bytes != receive.bytes) {
    receive.status = WrongSize(receive, message->from, message->envelope.bytes);
  } else if (receive.bytes > 0) {
    std::memcpy(receive.data, data, receive.bytes);
  }
  if (block != nullptr) HeaderOf(block).released.store(1, std::memory_order_release);
  unexpected_.erase(message);
  receive.done = true;
}

Error Mailbox::WrongSize(const Transfer& receive, int from, size_t sent) const {
  return Error{.code = Code::kFailed,
               .title = "MISMATCHED MESSAGE",
               .where = SelfText(),
               .what = "Rank " + std::to_string(from) + " sent " + std::to_string(sent) +
                       " bytes with tag " + std::to_string(receive.tag) + "; " + SelfText() +
                       " expected " + std::to_string(receive.bytes) + ".",
               .hint = "Sender and receiver must agree on the tensor's shape and type.",
               .page = "mismatched-message"};
}

// REQUIRES: mutex_ is held.
void Mailbox::Progress() {
  // In order: a message must not overtake another to the same rank.
  std::vector<bool> full(static_cast<size_t>(placement_.size()), false);
  for (auto send = sends_.begin(); send != sends_.end();) {
    const auto peer = static_cast<size_t>((*send)->peer);
    if (full[peer] || !Post(**send)) {
      full[peer] = true;
      ++send;
    } else {
      send = sends_.erase(send);
    }
  }
  if (receives_.empty() && sends_.empty()) return;
  // A peer whose sends wait for room here may be the one that we wait for: always take everything.
  for (const int from : placement_.Members(placement_.node())) TakeArrived(from);
  if (placement_.nodes() > 1) TakeFromWire();
  for (auto receive = receives_.begin(); receive != receives_.end();) {
    if ((*receive)->wire != nullptr) {
      FinishFromWire(**receive);
    } else {
      Match(**receive);
    }
    receive = (*receive)->done ? receives_.erase(receive) : std::next(receive);
  }
}

bool Mailbox::Test(Transfer& transfer) {
  const std::lock_guard lock(mutex_);
  if (!transfer.done) Progress();
  return transfer.done;
}

Status Mailbox::Wait(Transfer& transfer, Clock::time_point deadline) {
  while (true) {
    uint32_t seen = 0;
    bool one_event = false;  // only the peer's next message can end the wait
    const bool by_wire = transfer.wire != nullptr;
    const uint64_t completions = by_wire ? wire_.transport->completions() : 0;
    const bool by_channel =
        !transfer.sends && transfer.peer != kAnyRank && OnThisNode(transfer.peer);
    Channel* const channel =
        by_channel ? &region_.channel(placement_.LocalOf(transfer.peer), self()) : nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (channel != nullptr) seen = channel->written.load(std::memory_order_acquire);
      if (!transfer.done) Progress();
      if (transfer.done) return transfer.status;
      one_event = channel != nullptr && sends_.empty() && receives_.size() == 1;
      if (cancelled_ || Clock::now() >= deadline) return GiveUp(transfer);
    }
    if (by_wire) {
      WaitForWire(completions, deadline);
    } else if (one_event) {
      WaitUntilReached(channel->written, channel->sleepers, seen + 1,
                       {deadline, options_.spin, cancelled_});
    } else {
      std::this_thread::sleep_for(kPollTime);
    }
  }
}

// REQUIRES: mutex_ is held.
Status Mailbox::GiveUp(Transfer& transfer) {
  if (transfer.wire != nullptr) wire_.transport->Cancel(transfer.wire);
  std::erase_if(receives_, [&](const Handle& other) { return other.get() == &transfer; });
  transfer.done = true;
  transfer.status = NotCome(transfer);
  return transfer.status;
}

Error Mailbox::NotCome(const Transfer& transfer) const {
  const std::string self = SelfText();
  const std::string peer =
      transfer.peer == kAnyRank ? "any rank" : "rank " + std::to_string(transfer.peer);
  const std::string message =
      std::to_string(transfer.bytes) + " bytes, tag " + std::to_string(transfer.tag);
  const std::string what = transfer.sends
                               ? "A message to " + peer + " (" + message +
                                     ") was not taken: " + std::to_string(Channel::kDepth) +
                                     " earlier ones wait there."
                               : "The message from " + peer + " (" + message + ") did not come.";
  return Error{.code = cancelled_ ? Code::kFailed : Code::kDeadlineExceeded,
               .title = cancelled_ ? "MESSAGE CANCELLED" : "MESSAGE TIMED OUT",
               .where = self,
               .what = what,
               .hint = cancelled_ ? "" : "Look at the log of " + peer + ".",
               .page = "message-timed-out"};
}

}  // namespace ddprun::trainer
