#include "rendezvous/store/no_store.h"

#include "rendezvous/net/heard_text.h"

namespace ddprun::rendezvous {

Error NoStoreThere(const HostPort& peer, std::string_view received) {
  const std::string heard = HeardText(received);
  Error error;
  error.code = Code::kRendezvous;
  error.title = "NO STORE THERE";
  error.where = ToString(peer);
  error.what = "What listens on " + ToString(peer) + " is no TCPStore: " +
               (heard.empty() ? "its greeting is wrong" : "it says " + heard) + ".";
  error.hint = "Another program has this port: check host and port of the rendezvous.";
  error.page = "no-store";
  return error;
}

}  // namespace ddprun::rendezvous
