// The envelopes of messages from one rank of a node to another: a queue in their shared memory
// without a limit, so that who sends never waits.
#pragma once

#include <deque>
#include <optional>

#include "trainer/comm/shared_region.h"

namespace ddprun::trainer {

// The sender's end; one of them in a channel's life. One thread at a time. `region` must outlive
// it; what has been written stays when it goes.
class ChannelWriter {
 public:
  ChannelWriter(SharedRegion& region, int from, int to);

  // False when no shared memory is left.
  [[nodiscard]] bool Write(const Envelope& envelope);

 private:
  struct Page {
    EnvelopePage* page = nullptr;
    uint32_t first = 0;  // number of its first envelope
  };
  bool BeginPage(uint32_t number);

  SharedRegion& region_;
  Channel& channel_;
  const int from_;
  std::deque<Page> pages_;  // the last one is being filled
};

// The receiver's end; as above.
class ChannelReader {
 public:
  ChannelReader(SharedRegion& region, int from, int to);

  Channel& channel() { return channel_; }
  std::optional<Envelope> Read();

 private:
  Channel& channel_;
  std::byte* const heap_;  // of the sender
  EnvelopePage* page_ = nullptr;
};

}  // namespace ddprun::trainer
