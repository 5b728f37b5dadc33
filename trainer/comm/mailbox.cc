#include "trainer/comm/mailbox.h"

#include <algorithm>
#include <cstring>
#include <thread>

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

Mailbox::Mailbox(SharedRegion& region, Options options) : region_(region), options_(options) {}

// What has not been received yet stays: its receiver may come when this rank has ended.
Mailbox::~Mailbox() {
  for (const Block& block : blocks_) {
    const bool released = HeaderOf(block.data).released.load(std::memory_order_acquire) != 0;
    if (released) region_.Free(options_.rank, block.data);
  }
}

Mailbox::Handle Mailbox::Send(const void* data, size_t bytes, int to, int tag) {
  DDPRUN_CHECK(to >= 0 && to < region_.local_size());
  auto transfer = std::make_shared<Transfer>();
  transfer->sends = true;
  transfer->peer = to;
  transfer->tag = tag;
  transfer->bytes = bytes;
  const std::lock_guard lock(mutex_);
  const Block block = TakeBlock(bytes);
  if (block.data == nullptr) {
    transfer->done = true;
    transfer->status =
        Error{.code = Code::kFailed,
              .title = "OUT OF SHARED MEMORY",
              .where = "rank " + std::to_string(options_.rank),
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
  DDPRUN_CHECK(from >= kAnyRank && from < region_.local_size());
  auto transfer = std::make_shared<Transfer>();
  transfer->peer = from;
  transfer->tag = tag;
  transfer->bytes = bytes;
  transfer->data = data;
  const std::lock_guard lock(mutex_);
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
  Block block{.data = region_.Allocate(options_.rank, needed), .capacity = needed};
  if (block.data != nullptr) blocks_.push_back(block);
  return block;
}

bool Mailbox::Post(Transfer& transfer) {
  Channel& channel = region_.channel(options_.rank, transfer.peer);
  const uint32_t written = channel.written.load(std::memory_order_relaxed);
  if (written - channel.read.load(std::memory_order_acquire) == Channel::kDepth) return false;
  const std::byte* heap = region_.heap(options_.rank);
  channel.envelopes[written % Channel::kDepth] = {
      .bytes = transfer.bytes,
      .heap_offset = static_cast<uint64_t>(transfer.block - heap),
      .tag = transfer.tag};
  AdvanceAndWake(channel.written, channel.sleepers, written + 1);
  transfer.done = true;
  return true;
}

void Mailbox::TakeArrived(int from) {
  Channel& channel = region_.channel(from, options_.rank);
  uint32_t read = channel.read.load(std::memory_order_relaxed);
  const uint32_t written = channel.written.load(std::memory_order_acquire);
  for (; read != written; ++read) {
    unexpected_.push_back({channel.envelopes[read % Channel::kDepth], from});
  }
  channel.read.store(read, std::memory_order_release);
}

void Mailbox::Match(Transfer& receive) {
  const auto message =
      std::find_if(unexpected_.begin(), unexpected_.end(), [&](const Message& arrived) {
        return arrived.envelope.tag == receive.tag &&
               (receive.peer == kAnyRank || receive.peer == arrived.from);
      });
  if (message == unexpected_.end()) return;
  std::byte* block = region_.heap(message->from) + message->envelope.heap_offset;
  receive.peer = message->from;
  if (message->envelope.bytes != receive.bytes) {
    receive.status =
        Error{.code = Code::kFailed,
              .title = "MISMATCHED MESSAGE",
              .where = "rank " + std::to_string(options_.rank),
              .what = "Rank " + std::to_string(message->from) + " sent " +
                      std::to_string(message->envelope.bytes) + " bytes with tag " +
                      std::to_string(receive.tag) + "; rank " + std::to_string(options_.rank) +
                      " expected " + std::to_string(receive.bytes) + ".",
              .hint = "Sender and receiver must agree on the tensor's shape and type.",
              .page = "mismatched-message"};
  } else if (receive.bytes > 0) {
    std::memcpy(receive.data, block + sizeof(BlockHeader), receive.bytes);
  }
  HeaderOf(block).released.store(1, std::memory_order_release);
  unexpected_.erase(message);
  receive.done = true;
}

// REQUIRES: mutex_ is held.
void Mailbox::Progress() {
  // In order: a message must not overtake another to the same rank.
  std::vector<bool> full(static_cast<size_t>(region_.local_size()), false);
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
  for (int from = 0; from < region_.local_size(); ++from) TakeArrived(from);
  for (auto receive = receives_.begin(); receive != receives_.end();) {
    Match(**receive);
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
    {
      const std::lock_guard lock(mutex_);
      if (!transfer.done && !transfer.sends && transfer.peer != kAnyRank) {
        Channel& channel = region_.channel(transfer.peer, options_.rank);
        seen = channel.written.load(std::memory_order_acquire);
        one_event = true;
      }
      if (!transfer.done) Progress();
      if (transfer.done) return transfer.status;
      one_event = one_event && sends_.empty() && receives_.size() == 1;
      if (cancelled_ || Clock::now() >= deadline) {
        const Error error = NotCome(transfer);
        std::erase_if(receives_, [&](const Handle& other) { return other.get() == &transfer; });
        transfer.done = true;
        transfer.status = error;
        return error;
      }
    }
    if (!one_event) {
      std::this_thread::sleep_for(kPollTime);
      continue;
    }
    Channel& channel = region_.channel(transfer.peer, options_.rank);
    WaitUntilReached(channel.written, channel.sleepers, seen + 1,
                     {deadline, options_.spin, cancelled_});
  }
}

Error Mailbox::NotCome(const Transfer& transfer) const {
  const std::string self = "rank " + std::to_string(options_.rank);
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
