#include "trainer/comm/channel.h"

#include "trainer/comm/futex_wait.h"

namespace ddprun::trainer {

ChannelWriter::ChannelWriter(SharedRegion& region, int from, int to)
    : region_(region), channel_(region.channel(from, to)), from_(from) {}

bool ChannelWriter::Write(const Envelope& envelope) {
  const uint32_t number = channel_.written.load(std::memory_order_relaxed);
  const uint32_t slot = number % EnvelopePage::kEnvelopes;
  if (slot == 0 && !BeginPage(number)) return false;
  pages_.back().page->envelopes[slot] = envelope;
  AdvanceAndWake(channel_.written, channel_.sleepers, number + 1);
  return true;
}

bool ChannelWriter::BeginPage(uint32_t number) {
  // The reader has finished with a page when it has read from the next one.
  const auto is_over = [&](const Page& page) {
    return HasReached(channel_.read.load(std::memory_order_acquire),
                      page.first + EnvelopePage::kEnvelopes + 1);
  };
  EnvelopePage* page = nullptr;
  if (!pages_.empty() && is_over(pages_.front())) {
    page = pages_.front().page;
    pages_.pop_front();
  } else if (pages_.size() < std::size(channel_.pages)) {
    page = &channel_.pages[pages_.size()];
  } else {
    page = reinterpret_cast<EnvelopePage*>(region_.Allocate(from_, sizeof(EnvelopePage)));
    if (page == nullptr) return false;
  }
  if (!pages_.empty()) {
    pages_.back().page->next = reinterpret_cast<std::byte*>(page) - region_.heap(from_);
  }
  pages_.push_back({page, number});
  return true;
}

ChannelReader::ChannelReader(SharedRegion& region, int from, int to)
    : channel_(region.channel(from, to)), heap_(region.heap(from)) {}

std::optional<Envelope> ChannelReader::Read() {
  const uint32_t number = channel_.read.load(std::memory_order_relaxed);
  if (number == channel_.written.load(std::memory_order_acquire)) return std::nullopt;
  const uint32_t slot = number % EnvelopePage::kEnvelopes;
  if (slot == 0) {
    page_ = page_ == nullptr ? &channel_.pages[0]
                             : reinterpret_cast<EnvelopePage*>(heap_ + page_->next);
  }
  const Envelope envelope = page_->envelopes[slot];
  channel_.read.store(number + 1, std::memory_order_release);
  return envelope;
}

}  // namespace ddprun::trainer
