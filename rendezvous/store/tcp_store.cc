#include "rendezvous/store/tcp_store.h"

#include <unistd.h>

#include <algorithm>

#include "rendezvous/net/quote_received.h"
#include "rendezvous/store/wire.h"
#include "rendezvous/store/wire_decoder.h"

namespace ddprun::rendezvous {

namespace {

// How long the answer to a cancelled wait may take, when the wait's own deadline has passed.
constexpr std::chrono::milliseconds kCancelTimeout{5'000};
constexpr size_t kReplyReadBytes = 16 << 10;

// Returns the deadline for requests before and after a wait. It leaves them time even if the wait's
// own deadline passes, so that a key that comes at the last moment is still read.
Deadline AfterWait(Deadline deadline) {
  return std::max(deadline, DeadlineAfter(kCancelTimeout));
}

std::string WireKey(std::string_view key) {
  return "/" + std::string(key);
}

std::vector<std::string> WireKeys(std::span<const std::string> keys) {
  std::vector<std::string> wire;
  wire.reserve(keys.size());
  for (const std::string& key : keys) wire.push_back(WireKey(key));
  return wire;
}

Result<int64_t> NumberOf(Result<Reply> reply) {
  DDPRUN_ASSIGN(const Reply answer, std::move(reply));
  return answer.number;
}

Result<std::vector<std::string>> ValuesOf(Result<Reply> reply) {
  DDPRUN_ASSIGN(Reply answer, std::move(reply));
  return std::move(answer.values);
}

Error StillMissing(const HostPort& peer, const std::vector<std::string>& keys) {
  Error error;
  error.code = Code::kDeadlineExceeded;
  error.title = "KEY DID NOT APPEAR";
  error.where = "store " + ToString(peer);
  error.what = "Nobody has set ";
  const size_t shown = std::min<size_t>(keys.size(), 4);
  for (size_t i = 0; i < shown; ++i) error.what += (i > 0 ? ", " : "") + keys[i].substr(1);
  if (shown < keys.size()) {
    error.what += " and " + std::to_string(keys.size() - shown) + " more";
  }
  error.what += " before the deadline.";
  error.hint = "The rank that should have set it is late or has stopped.";
  error.page = "key-did-not-appear";
  return error;
}

}  // namespace

Error NoStoreThere(const HostPort& peer, std::string_view received) {
  const std::string heard = QuoteReceived(received);
  return {.code = Code::kRendezvous,
          .title = "NO STORE THERE",
          .where = ToString(peer),
          .what = "What listens on " + ToString(peer) + " is no TCPStore: " +
                  (heard.empty() ? "its greeting is wrong" : "it says " + heard) + ".",
          .hint = "Another program has this port: check host and port of the rendezvous.",
          .page = "no-store"};
}

Result<std::unique_ptr<TcpStore>> TcpStore::Connect(const HostPort& server, Deadline deadline) {
  DDPRUN_ASSIGN(Stream stream, Stream::Connect(server, deadline));
  std::unique_ptr<TcpStore> store(new TcpStore(std::move(stream)));
  DDPRUN_TRY(store->Handshake(deadline));
  return store;
}

Status TcpStore::Handshake(Deadline deadline) {
  const Request ping{.nonce = static_cast<uint32_t>(getpid())};
  // Sends both in one segment, because torch's libuv server drops a connection whose first message
  // is split.
  EncodeRequest({.op = Op::kValidate, .nonce = kValidateMagic}, unsent_);
  auto reply = Exchange(ping, deadline);
  if (reply.has_value() && reply->nonce == ping.nonce) return {};
  if (!reply.has_value() && reply.error().code == Code::kDeadlineExceeded) {
    return std::move(reply).error();
  }
  std::string heard;
  if (reply.has_value()) EncodeReply(*reply, heard);
  return NoStoreThere(stream_.peer(), heard + received_);
}

Status TcpStore::Usable() const {
  if (!broken_) return {};
  return Error{.title = "STORE CONNECTION UNUSABLE",
               .where = "store " + ToString(stream_.peer()),
               .what = "An earlier call on this connection failed in the middle of its message.",
               .page = "connection-lost"};
}

Status TcpStore::SendLocked(const Request& request, Deadline deadline) {
  DDPRUN_TRY(Usable());
  EncodeRequest(request, unsent_);
  const std::string bytes = std::exchange(unsent_, {});
  Status status = stream_.Write(bytes, deadline);
  broken_ = !status.ok();
  return status;
}

Result<Reply> TcpStore::ReadReply(const Request& request, Deadline deadline) {
  ReplyDecoder decoder;
  decoder.Expect(request.op, request.keys.size());
  Reply reply;
  while (true) {
    std::string_view input = received_;
    auto complete = decoder.Next(input, reply);
    received_.erase(0, received_.size() - input.size());
    if (!complete.has_value()) {
      broken_ = true;
      return std::move(complete).error();
    }
    if (*complete) return reply;
    char buffer[kReplyReadBytes];
    auto count = stream_.ReadSome(buffer, deadline);
    if (!count.has_value()) {
      broken_ = true;
      return std::move(count).error();
    }
    received_.assign(buffer, *count);
  }
}

Result<Reply> TcpStore::Exchange(const Request& request, Deadline deadline) {
  DDPRUN_TRY(SendLocked(request, deadline));
  return ReadReply(request, deadline);
}

Status TcpStore::WaitLocked(std::vector<std::string> keys, Deadline deadline) {
  const Request wait = KeysRequest(Op::kWait, std::move(keys));
  DDPRUN_TRY(SendLocked(wait, AfterWait(deadline)));
  auto reply = ReadReply(wait, deadline);
  if (reply.has_value()) return {};
  if (reply.error().code != Code::kDeadlineExceeded) return std::move(reply).error();
  broken_ = false;  // no byte of the answer has come, so CancelWait() can end the wait
  return CancelWait(wait.keys);
}

Status TcpStore::CancelWait(const std::vector<std::string>& keys) {
  const Request cancel{.op = Op::kCancelWait};
  const Deadline deadline = DeadlineAfter(kCancelTimeout);
  DDPRUN_ASSIGN(const Reply first, Exchange(cancel, deadline));
  if (first.status == kWaitCanceled) return StillMissing(stream_.peer(), keys);
  // The keys came while the cancellation was on its way, so the server answers both.
  DDPRUN_ASSIGN(const Reply second, ReadReply(cancel, deadline));
  (void)second;
  return {};
}

Status TcpStore::Send(const Request& request, Deadline deadline) {
  const std::lock_guard lock(mutex_);
  return SendLocked(request, deadline);
}

Result<Reply> TcpStore::Ask(const Request& request, Deadline deadline) {
  const std::lock_guard lock(mutex_);
  return Exchange(request, deadline);
}

Result<Reply> TcpStore::AskOnceThere(const std::vector<std::string>& keys,
                                     const Request& request,
                                     Deadline deadline) {
  const std::lock_guard lock(mutex_);
  DDPRUN_TRY(WaitLocked(keys, deadline));
  return Exchange(request, AfterWait(deadline));
}

Status TcpStore::Set(std::string_view key, std::string_view value, Deadline deadline) {
  return Send(KeyRequest(Op::kSet, WireKey(key), std::string(value)), deadline);
}

Status TcpStore::Append(std::string_view key, std::string_view value, Deadline deadline) {
  return Send(KeyRequest(Op::kAppend, WireKey(key), std::string(value)), deadline);
}

Result<std::string> TcpStore::Get(std::string_view key, Deadline deadline) {
  const Request get = KeyRequest(Op::kGet, WireKey(key));
  DDPRUN_ASSIGN(Reply reply, AskOnceThere({get.key}, get, deadline));
  return std::move(reply.values.front());
}

Result<int64_t> TcpStore::Add(std::string_view key, int64_t delta, Deadline deadline) {
  Request request = KeyRequest(Op::kAdd, WireKey(key));
  request.number = delta;
  return NumberOf(Ask(request, deadline));
}

Result<std::string> TcpStore::CompareSet(std::string_view key,
                                         std::string_view expected,
                                         std::string_view desired,
                                         Deadline deadline) {
  Request request = KeyRequest(Op::kCompareSet, WireKey(key), std::string(desired));
  request.expected = expected;
  DDPRUN_ASSIGN(Reply reply, Ask(request, deadline));
  return std::move(reply.values.front());
}

Status TcpStore::Wait(std::span<const std::string> keys, Deadline deadline) {
  const std::lock_guard lock(mutex_);
  return WaitLocked(WireKeys(keys), deadline);
}

Result<bool> TcpStore::Check(std::span<const std::string> keys, Deadline deadline) {
  DDPRUN_ASSIGN(const Reply reply, Ask(KeysRequest(Op::kCheck, WireKeys(keys)), deadline));
  return reply.status == kCheckReady;
}

Result<bool> TcpStore::Delete(std::string_view key, Deadline deadline) {
  DDPRUN_ASSIGN(const Reply reply, Ask(KeyRequest(Op::kDeleteKey, WireKey(key)), deadline));
  return reply.number > 0;
}

Result<std::vector<std::string>> TcpStore::MultiGet(std::span<const std::string> keys,
                                                    Deadline deadline) {
  const Request get = KeysRequest(Op::kMultiGet, WireKeys(keys));
  return ValuesOf(AskOnceThere(get.keys, get, deadline));
}

Status TcpStore::MultiSet(std::span<const std::string> keys,
                          std::span<const std::string> values,
                          Deadline deadline) {
  Request request = KeysRequest(Op::kMultiSet, WireKeys(keys));
  request.values.assign(values.begin(), values.end());
  return Send(request, deadline);
}

Result<int64_t> TcpStore::NumKeys(Deadline deadline) {
  return NumberOf(Ask(KeyRequest(Op::kGetNumKeys, ""), deadline));
}

Result<std::vector<std::string>> TcpStore::ListKeys(Deadline deadline) {
  return ValuesOf(Ask(KeyRequest(Op::kListKeys, ""), deadline));
}

Status TcpStore::QueuePush(std::string_view key, std::string_view value, Deadline deadline) {
  return Send(KeyRequest(Op::kQueuePush, WireKey(key), std::string(value)), deadline);
}

Result<std::optional<std::string>> TcpStore::QueuePop(std::string_view key,
                                                      bool block,
                                                      Deadline deadline) {
  const Request pop = KeyRequest(Op::kQueuePop, WireKey(key));
  while (true) {
    auto reply = block ? AskOnceThere({pop.key}, pop, deadline) : Ask(pop, deadline);
    if (!reply.has_value()) return std::move(reply).error();
    if (reply->number > 0) return std::optional(std::move(reply->values.front()));
    if (!block) return std::optional<std::string>();
    // Another client has taken the element in between.
  }
}

Result<int64_t> TcpStore::QueueLength(std::string_view key, Deadline deadline) {
  return NumberOf(Ask(KeyRequest(Op::kQueueLen, WireKey(key)), deadline));
}

Result<StoreStatus> TcpStore::ServerStatus(Deadline deadline) {
  DDPRUN_ASSIGN(const Reply reply, Ask(KeyRequest(Op::kGet, std::string(kStatusKey)), deadline));
  return ParseStoreStatus(reply.values.front());
}

}  // namespace ddprun::rendezvous
