// A store's client that sends and receives single bytes, for tests that misbehave.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/net/socket.h"
#include "rendezvous/store/tcp_store.h"
#include "rendezvous/store/wire.h"
#include "tests/rendezvous/loop_thread.h"

namespace ddprun::rendezvous {

inline std::string Greeting() {
  std::string bytes;
  Request validate;
  validate.op = Op::kValidate;
  validate.nonce = kValidateMagic;
  EncodeRequest(validate, bytes);
  return bytes;
}

inline std::string Encoded(const Request& request) {
  std::string bytes;
  EncodeRequest(request, bytes);
  return bytes;
}

inline Request SetRequest(const std::string& key, const std::string& value) {
  Request request;
  request.op = Op::kSet;
  request.key = key;
  request.value = value;
  return request;
}

inline Stream Connected(const HostPort& endpoint) {
  return *Stream::Connect(endpoint, Soon());
}

// Returns whether the server ends the connection without an answer.
inline bool IsClosed(Stream& stream) {
  char byte;
  const auto count = stream.ReadSome(std::span(&byte, 1), Soon());
  return !count.has_value() && count.error().code == Code::kFailed;
}

inline bool Works(const HostPort& endpoint) {
  auto store = TcpStore::Connect(endpoint, Soon());
  return store.has_value() && (*store)->Add("n", 1, Soon()).has_value();
}

}  // namespace ddprun::rendezvous
