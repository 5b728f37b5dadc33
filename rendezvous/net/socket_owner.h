// Asks the kernel whose process has the other end of a connection within this machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "rendezvous/net/socket.h"

namespace ddprun::rendezvous {

struct SocketOwner {
  uid_t user = 0;
  uint32_t inode = 0;  // 0 means that no process has the socket open any longer
};

// Returns the owner of the socket whose own end is `local` and whose peer is `remote`, in this
// process's network namespace; nullopt if there is none, or if the kernel does not tell
// (NETLINK_SOCK_DIAG).
std::optional<SocketOwner> OwnerOfSocket(const SocketEnd& local, const SocketEnd& remote);

// Returns whether the other end of the connection is in this machine and its user may not speak to
// this process: it is neither this process's user nor root, or the process is gone. Returns false
// in a process of root, which serves all users of its machine, and if the kernel does not tell.
bool IsOfOtherUser(const SocketEnd& own, const SocketEnd& peer);

}  // namespace ddprun::rendezvous
