#include "trainer/comm/share_file.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <set>
#include <thread>

#include "base/text.h"

namespace ddprun::trainer {

namespace {

using Clock = std::chrono::steady_clock;

struct Address {
  sockaddr_un un{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&un); }
};

Address AbstractAddress(const std::string& name) {
  Address address;
  address.un.sun_family = AF_UNIX;
  // The first byte is zero, so that the name exists only in the kernel.
  const size_t bytes = std::min(name.size(), sizeof(address.un.sun_path) - 1);
  std::memcpy(address.un.sun_path + 1, name.data(), bytes);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  return address;
}

bool WaitReadable(int fd, Clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd in{fd, POLLIN, 0};
    const int ready = poll(&in, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

bool SameUser(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == getuid();
}

// One byte, and room for a descriptor beside it. Not copyable, because it points into itself.
struct FdMessage {
  FdMessage() = default;
  FdMessage(const FdMessage&) = delete;

  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{nullptr, 0, &data, 1, control, sizeof control, 0};
};

bool SendFd(int socket, int fd) {
  FdMessage one;
  cmsghdr* header = CMSG_FIRSTHDR(&one.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return sendmsg(socket, &one.message, MSG_NOSIGNAL) == 1;
}

UniqueFd ReceiveFd(int socket) {
  FdMessage one;
  if (recvmsg(socket, &one.message, MSG_CMSG_CLOEXEC) != 1) return UniqueFd();
  const cmsghdr* header = CMSG_FIRSTHDR(&one.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return UniqueFd();
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return UniqueFd(fd);
}

Error NotTogether(const std::string& what) {
  return Error{.code = Code::kRendezvous,
               .title = "RANKS DID NOT COME",
               .what = what,
               .hint =
                   "Look at the output of the missing ranks. They must run on this machine, as "
                   "the same user.",
               .page = "ranks-did-not-come"};
}

Status Serve(int listener, int file, int size, Clock::time_point deadline) {
  std::set<int32_t> missing;
  for (int rank = 1; rank < size; ++rank) missing.insert(rank);
  while (!missing.empty()) {
    if (!WaitReadable(listener, deadline)) {
      return NotTogether(
          "Rank 0 waited for these ranks, but they did not come: " + FormatList(missing) + ".");
    }
    const UniqueFd peer(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    int32_t rank = 0;
    const bool told = peer.valid() && SameUser(peer.get()) && WaitReadable(peer.get(), deadline) &&
                      read(peer.get(), &rank, sizeof rank) == sizeof rank;
    if (told && SendFd(peer.get(), file)) missing.erase(rank);
  }
  return {};
}

}  // namespace

Result<UniqueFd> ShareFile(const std::string& name,
                           int rank,
                           int size,
                           std::chrono::milliseconds timeout,
                           const std::function<Result<UniqueFd>()>& make) {
  const Clock::time_point deadline = Clock::now() + timeout;
  const Address address = AbstractAddress(name);
  if (rank == 0) {
    const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!listener.valid() || bind(listener.get(), address.get(), address.length) != 0 ||
        listen(listener.get(), size) != 0) {
      return SystemError("opening the socket of the group " + name, errno);
    }
    DDPRUN_ASSIGN(UniqueFd file, make());
    DDPRUN_TRY(Serve(listener.get(), file.get(), size, deadline));
    return file;
  }
  constexpr std::chrono::milliseconds kRetry{5};
  for (; Clock::now() < deadline; std::this_thread::sleep_for(kRetry)) {
    const UniqueFd server(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!server.valid()) return SystemError("opening a socket", errno);
    if (connect(server.get(), address.get(), address.length) != 0) continue;
    const int32_t self = rank;
    if (!SameUser(server.get()) || send(server.get(), &self, sizeof self, MSG_NOSIGNAL) < 0)
      continue;
    if (!WaitReadable(server.get(), deadline)) break;
    UniqueFd file = ReceiveFd(server.get());
    if (file.valid()) return file;
  }
  return NotTogether("Rank " + std::to_string(rank) +
                     " waited for rank 0, but rank 0 did not come.");
}

}  // namespace ddprun::trainer
