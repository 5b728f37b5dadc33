// The memory through which the ranks of a node communicate: a control block for each rank, and a
// channel for each ordered pair of ranks. All zeros is the first state of both.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "trainer/comm/packed_error.h"

namespace ddprun::trainer {

inline constexpr size_t kSlotBytes = size_t{16} << 10;

// The operation that a rank is about to do. The rank writes it before it arrives at a meeting; the
// others read it after the meeting.
struct OperationHeader {
  uint64_t sequence;
  uint64_t bytes;
  uint64_t heap_offset;   // where the data is, if `direct`
  uint64_t inbox_offset;  // in the rank's heap: data from other nodes, if any
  uint32_t kind;
  uint32_t type;
  uint32_t reduction;
  uint32_t root;
  uint32_t algorithm;
  uint32_t direct;  // 1: the data is in the rank's heap; 0: the rank stages it piece by piece
};

// The control block of one rank. Only this rank writes it, except `left` and `sleepers` fields.
struct ControlBlock {
  alignas(64) std::atomic<uint32_t> arrived;   // phases that this rank has reached; a futex
  alignas(64) std::atomic<uint32_t> sleepers;  // peers that sleep on `arrived`
  // Index: the operation's number modulo 2, because a rank may be one operation ahead of another.
  alignas(64) OperationHeader headers[2];
  alignas(64) std::byte slots[2][kSlotBytes];  // data of small operations
  // The last operation whose data this rank has finished reading (NodeMeeting::EndReading).
  std::atomic<uint64_t> read;
  // A failure of this rank alone (NodeMeeting::MeetAndShare): the operation's number, packed Error.
  uint64_t failed_sequence;
  uint64_t failure_bytes;
  char failure[kPackedErrorBytes];
  // In the first rank's block only: number of ranks that have left this generation.
  std::atomic<int> left;
  int heap_generation;          // the generation of this rank's heap; set before `arrived`
  std::atomic<bool> given_up;   // this rank comes to no later meeting of this generation
  std::atomic<bool> cancelled;  // this rank has left or aborted its group (Mailbox::Cancel)
  // Stream pieces that this rank has filled or emptied (NodeGroup::Stream).
  alignas(64) std::atomic<uint32_t> passed;
  std::atomic<uint32_t> passed_sleepers;
};

// The place, in the sender's heap, of a message that its receiver has not taken yet.
struct Envelope {
  uint64_t bytes;
  uint64_t heap_offset;
  int32_t tag;
};

// A piece of a channel's queue.
struct EnvelopePage {
  static constexpr uint32_t kEnvelopes = 8;
  Envelope envelopes[kEnvelopes];
  int64_t next;  // offset of the next page in the sender's heap
};

// Messages from one rank to another; see channel.h. Only the receiver writes `read` and `sleepers`.
// Only the sender writes the other fields.
struct Channel {
  alignas(64) std::atomic<uint32_t> written;  // envelopes so far; a futex
  std::atomic<uint32_t> sleepers;             // receivers that sleep on `written`
  alignas(64) std::atomic<uint32_t> read;
  EnvelopePage pages[2];  // the first pages; the writer allocates more in the sender's heap
};

}  // namespace ddprun::trainer
