// Connections of other users within this machine, by processes of theirs.
#include "rendezvous/net/socket_owner.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "base/unique_fd.h"

namespace ddprun::rendezvous {
namespace {

constexpr uid_t kOther = 12345;

// A listener of both families, as a store has it.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_.get(), 8), 0);
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin6_port);
  }

  int get() const { return fd_.get(); }
  // Connects by an address of either family; runs in any process.
  UniqueFd Connect(const char* literal) const {
    UniqueFd fd;
    if (BeginConnect(asio::ip::make_address(literal), port_, fd) != 0) return {};
    return fd;
  }

 private:
  UniqueFd fd_;
  uint16_t port_ = 0;
};

// Runs `action` in a child process as another user, while this process goes on with `then`.
template <typename Action, typename Then>
void AsOtherUser(Action action, Then then) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe[1]);
    const bool changed = ::setresuid(kOther, kOther, kOther) == 0;
    const UniqueFd kept = changed ? action() : UniqueFd();
    char byte;
    [[maybe_unused]] const ssize_t end = ::read(pipe[0], &byte, 1);
    ::_exit(changed ? 0 : 1);
  }
  then();
  for (const int end : pipe) ::close(end);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

class SocketOwnerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  }
};

TEST_F(SocketOwnerTest, IsTheUserOfTheOtherEndInEachFamily) {
  for (const char* const literal : {"127.0.0.1", "::1"}) {
    const Listener listener;
    AsOtherUser([&] { return listener.Connect(literal); },
                [&] {
                  const UniqueFd fd(::accept(listener.get(), nullptr, nullptr));
                  const SocketEnd own = EndOf(fd.get(), getsockname);
                  const SocketEnd peer = EndOf(fd.get(), getpeername);
                  const auto theirs = OwnerOfSocket(peer, own);
                  const auto ours = OwnerOfSocket(own, peer);
                  ASSERT_TRUE(theirs && ours) << literal;
                  EXPECT_EQ(theirs->user, kOther);
                  EXPECT_NE(theirs->inode, 0);
                  EXPECT_EQ(ours->user, ::geteuid());
                });
  }
}

TEST_F(SocketOwnerTest, ThereIsNoneOfAConnectionThatThisMachineDoesNotHave) {
  const SocketEnd own{asio::ip::make_address("127.0.0.1"), 1};
  const SocketEnd peer{asio::ip::make_address("192.0.2.1"), 2};
  EXPECT_FALSE(OwnerOfSocket(peer, own).has_value());
  EXPECT_FALSE(IsOfOtherUser(own, peer));
}

// This process must not be root's, so all of it happens in a child.
TEST_F(SocketOwnerTest, AnotherUserIsForeignAndRootAndTheSameUserAreNot) {
  struct Case {
    uid_t client;
    bool closes;  // before it is looked at
    bool foreign;
  };
  for (const Case& each : {Case{0, false, false}, Case{kOther, false, false},
                           Case{kOther + 1, false, true}, Case{kOther + 1, true, true}}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const Listener listener;
      const bool connects = ::seteuid(each.client) == 0;
      UniqueFd client = listener.Connect("127.0.0.1");
      const bool changes = ::seteuid(0) == 0 && ::setresuid(kOther, kOther, kOther) == 0;
      if (!connects || !changes || !client.valid()) ::_exit(2);
      const UniqueFd fd(::accept(listener.get(), nullptr, nullptr));
      if (each.closes) client.reset();
      const bool foreign =
          IsOfOtherUser(EndOf(fd.get(), getsockname), EndOf(fd.get(), getpeername));
      ::_exit(foreign ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), each.foreign ? 1 : 0) << each.client << " " << each.closes;
  }
}

}  // namespace
}  // namespace ddprun::rendezvous
