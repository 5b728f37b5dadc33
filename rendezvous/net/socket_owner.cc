#include "rendezvous/net/socket_owner.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/unique_fd.h"
#include "rendezvous/net/address.h"

namespace ddprun::rendezvous {

namespace {

struct DiagRequest {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

void SetAddress(const asio::ip::address& address, __be32 (&bytes)[4]) {
  if (address.is_v4()) {
    const auto raw = address.to_v4().to_bytes();
    std::memcpy(bytes, raw.data(), raw.size());
  } else {
    const auto raw = address.to_v6().to_bytes();
    std::memcpy(bytes, raw.data(), raw.size());
  }
}

DiagRequest RequestFor(const SocketEnd& local, const SocketEnd& remote) {
  DiagRequest request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = local.address.is_v4() ? AF_INET : AF_INET6;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0U;
  inet_diag_sockid& id = request.body.id;
  id.idiag_sport = htons(local.port);
  id.idiag_dport = htons(remote.port);
  SetAddress(local.address, id.idiag_src);
  SetAddress(remote.address, id.idiag_dst);
  std::ranges::fill(id.idiag_cookie, INET_DIAG_NOCOOKIE);
  return request;
}

}  // namespace

std::optional<SocketOwner> OwnerOfSocket(const SocketEnd& local, const SocketEnd& remote) {
  const UniqueFd kernel(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  const DiagRequest request = RequestFor(local, remote);
  if (!kernel.valid() || ::send(kernel.get(), &request, sizeof request, 0) < 0) return std::nullopt;
  alignas(nlmsghdr) std::array<char, 4096> answer;
  // The kernel has answered before send() returns.
  const ssize_t count = ::recv(kernel.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  nlmsghdr header{};
  inet_diag_msg found{};
  if (count < static_cast<ssize_t>(NLMSG_LENGTH(sizeof found))) return std::nullopt;
  std::memcpy(&header, answer.data(), sizeof header);
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  std::memcpy(&found, answer.data() + NLMSG_HDRLEN, sizeof found);
  return SocketOwner{found.idiag_uid, found.idiag_inode};
}

bool IsOfOtherUser(const SocketEnd& own, const SocketEnd& peer) {
  const uid_t self = ::geteuid();
  if (self == 0) return false;
  const auto owner = OwnerOfSocket(peer, own);
  if (owner && owner->user == self) return false;
  if (owner && owner->inode != 0) return owner->user != 0;
  // The other end is gone, and with it the name of its user; or it is on another machine; or the
  // kernel knows nothing of this end either.
  return IsOwnAddress(peer.address) && OwnerOfSocket(own, peer).has_value();
}

}  // namespace ddprun::rendezvous
