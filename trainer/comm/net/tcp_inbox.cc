#include "trainer/comm/net/tcp_inbox.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "trainer/comm/net/transport_errors.h"

namespace ddprun::trainer {

void TcpRequest::Finish(Status result, size_t count) {
  status = std::move(result);
  bytes = count;
  keeps.reset();
  done.store(true, std::memory_order_release);
  completions->fetch_add(1, std::memory_order_release);
}

TcpInbox::Message TcpInbox::Begin(int from, uint64_t tag, size_t bytes) {
  auto message = std::make_shared<TcpMessage>(TcpMessage{.from = from, .tag = tag, .bytes = bytes});
  arriving_.push_back(message);
  std::list<TcpHandle>& posted = posted_[from];
  const auto wanted = std::ranges::find(posted, tag, [](const auto& each) { return each->tag; });
  if (wanted == posted.end()) {
    message->kept = std::make_unique_for_overwrite<std::byte[]>(bytes);
    early_.push_back(message);
  } else {
    const TcpHandle receive = *wanted;
    posted.erase(wanted);
    Attach(*message, receive);
  }
  return message;
}

void TcpInbox::End(const Message& message) {
  arriving_.remove(message);
  message->here = true;
  if (message->receive) Deliver(*message);
}

void TcpInbox::Attach(TcpMessage& message, const TcpHandle& receive) const {
  if (message.bytes <= receive->room) {
    message.receive = receive;
  } else {
    receive->Finish(MessageTooLong(rank_, receive->peer), 0);
    message.kept.reset();
  }
}

void TcpInbox::Deliver(TcpMessage& message) {
  const TcpHandle receive = std::exchange(message.receive, nullptr);
  if (message.kept && message.bytes > 0) {
    std::memcpy(receive->data, message.kept.get(), message.bytes);
  }
  receive->Finish({}, message.bytes);
}

void TcpInbox::Post(const TcpHandle& receive) {
  const auto early = std::ranges::find_if(early_, [&](const Message& message) {
    return message->from == receive->peer && message->tag == receive->tag;
  });
  if (early == early_.end()) {
    posted_[receive->peer].push_back(receive);
    return;
  }
  const Message message = *early;
  early_.erase(early);
  Attach(*message, receive);
  if (message->here && message->receive) Deliver(*message);
}

std::optional<Transport::Arrived> TcpInbox::Find(uint64_t tag, uint64_t mask) {
  const auto first = std::ranges::find_if(early_, [&](const Message& message) {
    return message->here && (message->tag & mask) == (tag & mask);
  });
  if (first == early_.end()) return std::nullopt;
  found_.splice(found_.end(), early_, first);
  return Transport::Arrived{
      .tag = (*first)->tag, .bytes = (*first)->bytes, .message = first->get()};
}

void TcpInbox::Take(const Transport::Arrived& arrived, const TcpHandle& receive) {
  const auto found = std::ranges::find(found_, arrived.message, &Message::get);
  DDPRUN_CHECK(found != found_.end());
  const Message message = *found;
  found_.erase(found);
  message->receive = receive;
  Deliver(*message);
}

void TcpInbox::Cancel(const TcpHandle& receive, const Status& status) {
  if (receive->done) return;
  posted_[receive->peer].remove(receive);
  for (const Message& message : arriving_) {
    if (message->receive != receive) continue;
    message->receive = nullptr;
    message->kept.reset();
  }
  receive->Finish(status, 0);
}

void TcpInbox::Fail(int from, const Status& status) {
  std::vector<TcpHandle> ended;
  for (auto& [peer, receives] : posted_) {
    if (from >= 0 && peer != from) continue;
    ended.insert(ended.end(), receives.begin(), receives.end());
    receives.clear();
  }
  std::erase_if(arriving_, [&](const Message& message) {
    if (from >= 0 && message->from != from) return false;
    if (message->receive) ended.push_back(std::exchange(message->receive, nullptr));
    message->kept.reset();
    early_.remove(message);
    return true;
  });
  for (const TcpHandle& receive : ended) receive->Finish(status, 0);
}

}  // namespace ddprun::trainer
