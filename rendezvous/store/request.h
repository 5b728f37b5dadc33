// Requests in one line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rendezvous/store/wire.h"

namespace ddprun::rendezvous {

inline Request KeyRequest(Op op, std::string key, std::string value = {}) {
  Request request;
  request.op = op;
  request.key = std::move(key);
  request.value = std::move(value);
  return request;
}

inline Request KeysRequest(Op op, std::vector<std::string> keys) {
  Request request;
  request.op = op;
  request.keys = std::move(keys);
  return request;
}

}  // namespace ddprun::rendezvous
