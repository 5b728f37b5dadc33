#include "trainer/comm/c10d_store.h"

#include <c10/util/Exception.h>

#include <utility>

namespace ddprun::trainer {

namespace {

using Bytes = std::vector<uint8_t>;
using Keys = std::vector<std::string>;
using rendezvous::Deadline;
using rendezvous::DeadlineAfter;
using std::chrono::milliseconds;

std::string TextOf(const Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}

Bytes BytesOf(const std::string& text) {
  return {text.begin(), text.end()};
}

[[noreturn]] void ThrowC10(const Error& error) {
  const std::string text = error.title + " (" + error.where + "): " + error.what;
  if (error.code == Code::kDeadlineExceeded) C10_THROW_ERROR(DistStoreError, text);
  C10_THROW_ERROR(DistNetworkError, text);
}

template <typename T>
T ValueOrThrowC10(Result<T> result) {
  if (!result.has_value()) ThrowC10(result.error());
  return *std::move(result);
}

void ValueOrThrowC10(const Status& status) {
  if (!status.ok()) ThrowC10(status.error());
}

class C10dStore final : public c10d::Store {
 public:
  C10dStore(std::unique_ptr<rendezvous::TcpStore> client, milliseconds timeout)
      : Store(timeout), client_(std::move(client)) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return MakeC10dStore(
        ValueOrThrowC10(rendezvous::TcpStore::Connect(client_->server(), AnswerDeadline())),
        timeout_);
  }

  void set(const std::string& key, const Bytes& value) override {
    ValueOrThrowC10(client_->Set(key, TextOf(value), AnswerDeadline()));
  }
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override {
    return BytesOf(ValueOrThrowC10(
        client_->CompareSet(key, TextOf(expected), TextOf(desired), AnswerDeadline())));
  }
  Bytes get(const std::string& key) override {
    return BytesOf(ValueOrThrowC10(client_->Get(key, DeadlineAfter(timeout_))));
  }
  int64_t add(const std::string& key, int64_t value) override {
    return ValueOrThrowC10(client_->Add(key, value, AnswerDeadline()));
  }
  bool deleteKey(const std::string& key) override {
    return ValueOrThrowC10(client_->Delete(key, AnswerDeadline()));
  }
  bool check(const Keys& keys) override {
    return ValueOrThrowC10(client_->Check(keys, AnswerDeadline()));
  }
  int64_t getNumKeys() override { return ValueOrThrowC10(client_->NumKeys(AnswerDeadline())); }
  void wait(const Keys& keys) override { wait(keys, timeout_); }
  void wait(const Keys& keys, const milliseconds& timeout) override {
    ValueOrThrowC10(client_->Wait(keys, DeadlineAfter(timeout)));
  }

  bool hasExtendedApi() const override { return true; }
  void append(const std::string& key, const Bytes& value) override {
    ValueOrThrowC10(client_->Append(key, TextOf(value), AnswerDeadline()));
  }
  std::vector<Bytes> multiGet(const Keys& keys) override {
    std::vector<Bytes> values;
    for (const std::string& value :
         ValueOrThrowC10(client_->MultiGet(keys, DeadlineAfter(timeout_)))) {
      values.push_back(BytesOf(value));
    }
    return values;
  }
  void multiSet(const Keys& keys, const std::vector<Bytes>& values) override {
    TORCH_CHECK(keys.size() == values.size(), "multiSet: ", keys.size(), " keys, but ",
                values.size(), " values");
    Keys texts;
    for (const Bytes& value : values) texts.push_back(TextOf(value));
    ValueOrThrowC10(client_->MultiSet(keys, texts, AnswerDeadline()));
  }
  void queuePush(const std::string& key, const Bytes& value) override {
    ValueOrThrowC10(client_->QueuePush(key, TextOf(value), AnswerDeadline()));
  }
  Bytes queuePop(const std::string& key, bool block) override {
    const auto element = ValueOrThrowC10(
        client_->QueuePop(key, block, block ? DeadlineAfter(timeout_) : AnswerDeadline()));
    if (!element) C10_THROW_ERROR(DistQueueEmptyError, "queue " + key + " is empty");
    return BytesOf(*element);
  }
  int64_t queueLen(const std::string& key) override {
    return ValueOrThrowC10(client_->QueueLength(key, AnswerDeadline()));
  }
  Keys listKeys() override {
    Keys keys = ValueOrThrowC10(client_->ListKeys(AnswerDeadline()));
    for (std::string& key : keys) {
      if (key.starts_with('/')) key.erase(0, 1);
    }
    return keys;
  }

 private:
  // Returns the deadline of calls that do not wait for other processes. They do not use the timeout
  // of waits, because a short one would cut them off in the middle of a message.
  static Deadline AnswerDeadline() { return DeadlineAfter(kDefaultTimeout); }

  const std::unique_ptr<rendezvous::TcpStore> client_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> MakeC10dStore(std::unique_ptr<rendezvous::TcpStore> client,
                                              milliseconds timeout) {
  return c10::make_intrusive<C10dStore>(std::move(client), timeout);
}

}  // namespace ddprun::trainer
