#include "rendezvous/store/store_watch.h"

#include <utility>

namespace ddprun::rendezvous {

StoreWatch::StoreWatch(asio::io_context& io,
                       const HostPort& server,
                       Deadline connect_deadline,
                       std::string key,
                       Handler handler)
    : connection_(io, server, connect_deadline) {
  Request wait;
  wait.op = Op::kWait;
  wait.keys = {key};
  connection_.Call(std::move(wait),
                   [this, key = std::move(key), handler = std::move(handler)](Result<Reply> woken) {
                     if (!woken.has_value()) return handler(std::move(woken).error());
                     Request get;
                     get.op = Op::kGet;
                     get.key = key;
                     connection_.Call(std::move(get), [handler](Result<Reply> reply) {
                       if (!reply.has_value()) return handler(std::move(reply).error());
                       handler(std::move(reply->values.front()));
                     });
                   });
}

}  // namespace ddprun::rendezvous
