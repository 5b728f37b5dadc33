#include "trainer/comm/mailbox.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/step_phase.h"
#include "trainer/comm/meeting_errors.h"

namespace ddprun::trainer {

namespace {

// The header in front of a message, which shows whether its receiver has copied it. It fills a
// cache line, so that messages begin at cache lines.
struct alignas(64) BlockHeader {
  std::atomic<uint32_t> released;
};

// The pause of a wait that polls, because more than one event can end it.
constexpr std::chrono::microseconds kPollTime{100};

// Released blocks of so many bytes are kept for later messages of any size.
constexpr size_t kIdleBytes = size_t{64} << 20;

BlockHeader& HeaderOf(std::byte* block) {
  return *reinterpret_cast<BlockHeader*>(block);
}

bool IsReleased(std::byte* block) {
  return HeaderOf(block).released.load(std::memory_order_acquire) != 0;
}

}  // namespace

Mailbox::Mailbox(SharedRegion& region, NodePlacement placement, GroupWire wire, Options options)
    : region_(region),
      placement_(std::move(placement)),
      options_(options),
      wire_(std::move(wire), placement_.rank(), mutex_) {
  for (int local = 0; local < region_.local_size(); ++local) {
    writers_.emplace_back(region_, self(), local);
    readers_.emplace_back(region_, local, self());
  }
}

// Unreceived messages stay, because their receiver may come after this rank has ended.
Mailbox::~Mailbox() {
  wire_.Finish();
  const auto cancel = [this](const Transport::Handle& receive) {
    if (receive != nullptr) wire_.Cancel(receive);
  };
  for (const Handle& receive : receives_) {
    cancel(receive->wire);
    if (receive->arriving != nullptr) cancel(receive->arriving->transfer);
  }
  for (const auto& message : unexpected_) cancel(message->transfer);
  FreeBlocks(0);
}

Mailbox::Handle Mailbox::Send(const void* data, size_t bytes, int to, int tag) {
  DDPRUN_CHECK(to >= 0 && to < placement_.size());
  auto transfer = std::make_shared<Transfer>();
  transfer->peer = to;
  transfer->tag = tag;
  transfer->bytes = bytes;
  transfer->done = true;
  const std::lock_guard lock(mutex_);
  if (!OnThisNode(to)) {
    transfer->status = wire_.Send(data, bytes, to, tag);
    return transfer;
  }
  const Block block = TakeBlock(bytes);
  if (block.data != nullptr) {
    if (bytes > 0) std::memcpy(block.data + sizeof(BlockHeader), data, bytes);
    const auto offset = static_cast<uint64_t>(block.data - region_.heap(self()));
    ChannelWriter& writer = writers_[static_cast<size_t>(placement_.LocalOf(to))];
    if (writer.Write({.bytes = bytes, .heap_offset = offset, .tag = tag})) return transfer;
    HeaderOf(block.data).released.store(1, std::memory_order_relaxed);
  }
  transfer->status =
      Error{.title = "OUT OF SHARED MEMORY",
            .where = SelfText(),
            .what = "No shared memory is left for a message of " + std::to_string(bytes) +
                    " bytes to rank " + std::to_string(to) + ".",
            .hint = "Receive messages before more are sent.",
            .page = "out-of-shared-memory"};
  return transfer;
}

Mailbox::Handle Mailbox::Receive(
    void* data, size_t bytes, int from, int tag, std::shared_ptr<const void> keeps) {
  DDPRUN_CHECK(from >= kAnyRank && from < placement_.size());
  auto transfer = std::make_shared<Transfer>();
  transfer->peer = from;
  transfer->tag = tag;
  transfer->bytes = bytes;
  transfer->data = data;
  transfer->keeps = std::move(keeps);
  std::list<Handle> done;
  const std::lock_guard lock(mutex_);
  receives_.push_back(transfer);
  done = Progress();
  return transfer;
}

// Returns a released block that is not much too large, else a new one, because fresh pages cost
// more than the copy.
Mailbox::Block Mailbox::TakeBlock(size_t bytes) {
  const size_t needed = sizeof(BlockHeader) + bytes;
  const auto place = std::ranges::find_if(blocks_, [needed](const Block& block) {
    return IsReleased(block.data) && block.capacity >= needed &&
           block.capacity <= 4 * needed + 4096;
  });
  if (place != blocks_.end()) {
    std::rotate(place, place + 1, blocks_.end());
  } else {
    FreeBlocks(std::max(kIdleBytes, 4 * needed));  // else messages that grow would fill the heap
    std::byte* data = region_.Allocate(self(), needed);
    if (data == nullptr) {
      FreeBlocks(0);
      data = region_.Allocate(self(), needed);
    }
    if (data == nullptr) return {};
    blocks_.push_back({.data = data, .capacity = needed});
  }
  HeaderOf(blocks_.back().data).released.store(0, std::memory_order_relaxed);
  return blocks_.back();
}

void Mailbox::FreeBlocks(size_t keep) {
  size_t released = 0;
  for (const Block& block : blocks_) released += IsReleased(block.data) ? block.capacity : 0;
  std::erase_if(blocks_, [&](const Block& block) {
    if (released <= keep || !IsReleased(block.data)) return false;
    released -= std::min(released, block.capacity);
    region_.Free(self(), block.data);
    return true;
  });
}

std::deque<std::shared_ptr<Mailbox::Message>>::iterator Mailbox::FirstFor(const Transfer& receive) {
  return std::find_if(unexpected_.begin(), unexpected_.end(), [&](const auto& arrived) {
    return arrived->envelope.tag == receive.tag &&
           (receive.peer == kAnyRank || receive.peer == arrived->from);
  });
}

// Gives the first matching message to the receive, even if it is not complete yet, so that a later
// receive does not take it.
void Mailbox::Match(Transfer& receive) {
  if (receive.arriving == nullptr) {
    const auto first = FirstFor(receive);
    if (first == unexpected_.end()) return;
    receive.arriving = std::move(*first);
    receive.peer = receive.arriving->from;
    unexpected_.erase(first);
  }
  const auto& transfer = receive.arriving->transfer;
  if (transfer != nullptr && !transfer->done.load(std::memory_order_acquire)) return;
  Take(receive, *receive.arriving);
  receive.arriving.reset();
  receive.done = true;
}

void Mailbox::Take(Transfer& receive, const Message& message) {
  const auto& wire = message.transfer;
  std::byte* const block = wire != nullptr ? nullptr
                                           : region_.heap(placement_.LocalOf(message.from)) +
                                                 message.envelope.heap_offset;
  const std::byte* const data = wire != nullptr ? message.data.data() : block + sizeof(BlockHeader);
  if (wire != nullptr && !wire->status.ok()) {
    receive.status = wire->status;
  } else if (message.envelope.bytes != receive.bytes) {
    receive.status = WrongSize(receive, message.from, message.envelope.bytes);
  } else if (receive.bytes > 0) {
    std::memcpy(receive.data, data, receive.bytes);
  }
  if (block != nullptr) HeaderOf(block).released.store(1, std::memory_order_release);
}

Error Mailbox::WrongSize(const Transfer& receive, int from, size_t sent) const {
  return Error{.title = "MISMATCHED MESSAGE",
               .where = SelfText(),
               .what = "R" + TextOf(from).substr(1) + " sent " + std::to_string(sent) +
                       " bytes with tag " + std::to_string(receive.tag) + "; " + SelfText() +
                       " expected " + std::to_string(receive.bytes) + ".",
               .hint = "Sender and receiver must agree on the tensor's shape and type.",
               .page = "mismatched-message"};
}

// REQUIRES: mutex_ is held.
std::list<Mailbox::Handle> Mailbox::Progress() {
  std::list<Handle> done;
  if (receives_.empty()) return done;
  for (const int from : placement_.Members(placement_.node())) {
    ChannelReader& reader = readers_[static_cast<size_t>(placement_.LocalOf(from))];
    while (const std::optional<Envelope> envelope = reader.Read()) {
      unexpected_.push_back(std::make_shared<Message>(Message{*envelope, from}));
    }
  }
  // A receive from any rank also takes the messages from other nodes.
  const auto from_any = [](const Handle& receive) { return receive->peer == kAnyRank; };
  if (placement_.nodes() > 1 && std::ranges::any_of(receives_, from_any)) {
    wire_.TakeOthers(unexpected_);
  }
  for (auto receive = receives_.begin(); receive != receives_.end();) {
    if ((*receive)->wire == nullptr) Match(**receive);
    Transfer& own = **receive;
    if (IsForWire(receive)) own.wire = wire_.Receive(own.data, own.bytes, own.peer, own.tag);
    if (own.wire != nullptr) FinishFromWire(own);
    const auto next = std::next(receive);
    if (own.done) done.splice(done.end(), receives_, receive);
    receive = next;
  }
  return done;
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

void Mailbox::FinishFromWire(Transfer& receive) {
  if (!receive.wire->done.load(std::memory_order_acquire)) return;
  if (!receive.wire->status.ok()) {
    receive.status = receive.wire->status;
  } else if (receive.wire->bytes != receive.bytes) {
    receive.status = WrongSize(receive, receive.peer, receive.wire->bytes);
  }
  receive.done = true;
}

bool Mailbox::Test(Transfer& transfer) {
  std::list<Handle> done;
  const std::lock_guard lock(mutex_);
  if (!transfer.done) done = Progress();
  return transfer.done;
}

Status Mailbox::Wait(Transfer& transfer, Clock::time_point deadline) {
  const WaitForRanks waits;
  for (Recording recording(options_.recorder, 0);;) {
    Channel* channel = nullptr;  // the only channel through which the message can come
    uint32_t seen = 0;
    uint64_t completions = 0;
    bool by_wire = false;
    bool lost = false;
    std::list<Handle> done;
    {
      const std::lock_guard lock(mutex_);
      if (transfer.done) return transfer.status;
      lost = LostFor(transfer.peer)
                 .has_value();  // before Progress(), which takes the last message of the lost
      if (transfer.peer != kAnyRank && OnThisNode(transfer.peer)) {
        channel = &readers_[static_cast<size_t>(placement_.LocalOf(transfer.peer))].channel();
        seen = channel->written.load(std::memory_order_acquire);
      }
      if (placement_.nodes() > 1) completions = wire_.completions();
      done = Progress();
      if (transfer.done) return transfer.status;
      by_wire = transfer.wire != nullptr || transfer.arriving != nullptr;
      if (lost || cancelled_ || Clock::now() >= deadline) {
        recording.Fail();
        return GiveUp(transfer);
      }
      if (!recording.started()) Record(recording, transfer);
    }
    done.clear();
    if (by_wire) {
      wire_.WaitForNews(completions, deadline, cancelled_);
    } else if (channel != nullptr) {
      WaitUntilReached(channel->written, channel->sleepers, seen + 1,
                       {deadline, options_.spin, cancelled_,
                        [this, peer = transfer.peer] { return LostFor(peer).has_value(); }});
    } else {
      std::this_thread::sleep_for(kPollTime);
    }
  }
}

void Mailbox::Record(Recording& recording, const Transfer& receive) const {
  const bool from_any = receive.peer == kAnyRank;
  recording.Start({.kind = from_any ? CollectiveKind::kReceiveFromAny : CollectiveKind::kReceive,
                   .group = options_.recorded_group,
                   .number = from_any ? 0 : static_cast<uint64_t>(placement_.NameOf(receive.peer)),
                   .bytes = receive.bytes});
  recording.SetWaiting(true);
}

// REQUIRES: mutex_ is held.
Status Mailbox::GiveUp(Transfer& transfer) {
  if (transfer.wire != nullptr) wire_.Cancel(transfer.wire);
  if (transfer.arriving != nullptr) unexpected_.push_front(std::move(transfer.arriving));
  transfer.done = true;
  transfer.status = NotCome(transfer);
  std::erase_if(receives_, [&](const Handle& other) { return other.get() == &transfer; });
  return transfer.status;
}

void Mailbox::Cancel() {
  cancelled_ = true;
  region_.control(self()).cancelled = true;
}

std::optional<int> Mailbox::LostFor(int peer) const {
  if (peer != kAnyRank) {
    const bool lost = OnThisNode(peer) && region_.control(placement_.LocalOf(peer)).given_up;
    return lost ? std::optional(peer) : std::nullopt;
  }
  std::optional<int> last;  // that left in order; it matters only if no rank is left
  bool more = placement_.nodes() > 1;
  for (const int rank : placement_.Members(placement_.node())) {
    const ControlBlock& control = region_.control(placement_.LocalOf(rank));
    if (rank == placement_.rank()) continue;
    if (control.given_up && !control.cancelled) return rank;
    if (control.given_up) last = rank;
    more = more || !control.given_up;
  }
  return more ? std::nullopt : last;
}

Error Mailbox::NotCome(const Transfer& transfer) const {
  const std::string peer = transfer.peer == kAnyRank ? "any rank" : TextOf(transfer.peer);
  if (const std::optional<int> lost = LostFor(transfer.peer)) {
    return RankLost(placement_.NameOf(placement_.rank()), placement_.NameOf(*lost),
                    "its message to this rank");
  }
  return Error{.code = cancelled_ ? Code::kFailed : Code::kDeadlineExceeded,
               .title = cancelled_ ? "MESSAGE CANCELLED" : "MESSAGE TIMED OUT",
               .where = SelfText(),
               .what = "The message from " + peer + " (" + std::to_string(transfer.bytes) +
                       " bytes, tag " + std::to_string(transfer.tag) + ") did not come.",
               .hint = cancelled_ ? "" : "Look at the log of " + peer + ".",
               .page = "message-timed-out"};
}

}  // namespace ddprun::trainer
