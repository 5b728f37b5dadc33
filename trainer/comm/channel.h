// A queue of message envelopes from one rank of a node to another, in their shared memory. The
// queue has no fixed limit, so that a sender never waits.
#pragma once

#include <deque>
#include <optional>

#include "trainer/comm/shared_region.h"

namespace ddprun::trainer {

// The sender's end. A channel has one writer in its life. One thread at a time. `region` must
// outlive the writer; written envelopes stay when the writer is destroyed.
class ChannelWriter {
 public:
  ChannelWriter(SharedRegion& region, int from, int to);

  // Returns false if no shared memory is left.
  [[nodiscard]] bool Write(const Envelope& envelope);

 private:
  struct Page {
    EnvelopePage* page = nullptr;
    uint32_t first = 0;  // number of the page's first envelope
  };
  bool BeginPage(uint32_t number);

  SharedRegion& region_;
  Channel& channel_;
  const int from_;
  std::deque<Page> pages_;  // the writer fills the last one
};

// The receiver's end. A channel has one reader in its life. One thread at a time. `region` must
// outlive the reader.
class ChannelReader {
 public:
  ChannelReader(SharedRegion& region, int from, int to);

  Channel& channel() { return channel_; }
  std::optional<Envelope> Read();

 private:
  Channel& channel_;
  std::byte* const heap_;  // the sender's heap
  EnvelopePage* page_ = nullptr;
};

}  // namespace ddprun::trainer
