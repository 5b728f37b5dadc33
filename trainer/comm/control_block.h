// What the ranks of a node write for each other, in memory that they share: the control block of
// each, and the channel from each to each. Zeros are the first state of both.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "trainer/comm/packed_error.h"

namespace ddprun::trainer {

inline constexpr size_t kSlotBytes = size_t{16} << 10;

// What a rank is about to do: written before it arrives, read by the others after.
struct OperationHeader {
  uint64_t sequence;
  uint64_t bytes;
  uint64_t heap_offset;   // of the data, if `direct`
  uint64_t inbox_offset;  // in the rank's heap: what comes from other nodes, if anything
  uint32_t kind;
  uint32_t type;
  uint32_t reduction;
  uint32_t root;
  uint32_t algorithm;
  uint32_t direct;  // the data lies in the rank's heap; otherwise it is staged piece by piece
};

// One per rank; written by its owner only, except for `sleepers`.
struct ControlBlock {
  alignas(64) std::atomic<uint32_t> arrived;   // phases this rank has come to; a futex
  alignas(64) std::atomic<uint32_t> sleepers;  // peers asleep on `arrived`
  // By the parity of the operation's number: a rank may be one operation ahead of another.
  alignas(64) OperationHeader headers[2];
  alignas(64) std::byte slots[2][kSlotBytes];  // small messages travel here
  // The last operation of which this rank needs nothing more (NodeMeeting::EndReading).
  std::atomic<uint64_t> read;
  // What has gone wrong on this rank alone (NodeMeeting::MeetAndShare), in which operation.
  uint64_t failed_sequence;
  uint64_t failure_bytes;
  char failure[kPackedErrorBytes];
  // Of the first rank's block: how many ranks have left this generation.
  std::atomic<int> left;
  int born;                    // the generation of this rank's heap; written before it arrives
  std::atomic<bool> given_up;  // this rank comes to no later meeting of this generation
  // Of a stream: pieces that this rank has given, or taken (NodeGroup::Stream).
  alignas(64) std::atomic<uint32_t> passed;
  std::atomic<uint32_t> passed_sleepers;
};

// A message on its way: where it lies in the sender's heap.
struct Envelope {
  uint64_t bytes;
  uint64_t heap_offset;
  int32_t tag;
};

// A piece of a channel's queue.
struct EnvelopePage {
  static constexpr uint32_t kEnvelopes = 8;
  Envelope envelopes[kEnvelopes];
  int64_t next;  // where the page after it is, from the sender's heap on
};

// Messages from one rank to another; see channel.h. `read` is written by the receiver only, the
// rest, but for `sleepers`, by the sender only.
struct Channel {
  alignas(64) std::atomic<uint32_t> written;  // envelopes so far; a futex
  std::atomic<uint32_t> sleepers;             // receivers asleep on `written`
  alignas(64) std::atomic<uint32_t> read;
  EnvelopePage pages[2];  // the first ones; more come from the sender's heap
};

}  // namespace ddprun::trainer
