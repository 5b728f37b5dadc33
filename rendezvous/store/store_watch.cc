#include "rendezvous/store/store_watch.h"

#include <utility>

#include "rendezvous/store/request.h"

namespace ddprun::rendezvous {

StoreWatch::StoreWatch(asio::io_context& io,
                       const HostPort& server,
                       Deadline connect_deadline,
                       std::string key,
                       Handler handler)
    : connection_(io, server, connect_deadline) {
  // Made before the call: the handler takes the key, and arguments have no order.
  Request wait = KeysRequest(Op::kWait, {key});
  connection_.Call(std::move(wait),
                   [this, key = std::move(key), handler = std::move(handler)](Result<Reply> woken) {
                     if (!woken.has_value()) return handler(std::move(woken).error());
                     connection_.Call(KeyRequest(Op::kGet, key), [handler](Result<Reply> reply) {
                       if (!reply.has_value()) return handler(std::move(reply).error());
                       handler(std::move(reply->values.front()));
                     });
                   });
}

}  // namespace ddprun::rendezvous
