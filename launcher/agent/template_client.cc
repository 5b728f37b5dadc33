#include "launcher/agent/template_client.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/byte_characters.h"
#include "base/untrusted_json.h"
#include "launcher/report/failure_report.h"

namespace ddprun::launcher {

namespace {

using nlohmann::json;

constexpr std::string_view kSocketVariable = "DDPRUN_TEMPLATE_FD";
constexpr size_t kMaxMessageBytes = 64 << 10;
constexpr size_t kMaxDescriptors = 5;

// Sends one datagram with descriptors. Returns 0 or the errno.
int SendMessage(int socket, const std::string& text, const std::vector<UniqueFd>& fds) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::array<int, kMaxDescriptors> numbers{};
    for (size_t i = 0; i < fds.size(); ++i) numbers[i] = fds[i].get();
    std::memcpy(CMSG_DATA(rights), numbers.data(), fds.size() * sizeof(int));
  }
  while (::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

Error TemplateGone(const std::string& why) {
  return Error{.title = "WORKER TEMPLATE FAILED",
               .what = "The process that forks the workers " + why + ".",
               .page = "template-failed"};
}

std::pair<std::string, std::string> SplitEntry(const std::string& entry) {
  const size_t equals = entry.find('=');
  return {entry.substr(0, equals), entry.substr(equals + 1)};
}

}  // namespace

EnvironmentChange ChangeOf(const Environment& from, const Environment& to) {
  EnvironmentChange change;
  for (const std::string& entry : to.Entries()) {
    auto [name, value] = SplitEntry(entry);
    if (from.Get(name) != value) change.set.emplace_back(std::move(name), std::move(value));
  }
  for (const std::string& entry : from.Entries()) {
    std::string name = SplitEntry(entry).first;
    if (!to.Get(name)) change.unset.push_back(std::move(name));
  }
  return change;
}

Result<std::unique_ptr<TemplateClient>> TemplateClient::Start(asio::io_context& io,
                                                              ProcessHost& processes,
                                                              SpawnRequest request,
                                                              std::function<void()> on_ready) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError("opening a socket pair", errno);
  }
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  request.env.push_back(std::string(kSocketVariable) + "=" + std::to_string(theirs.get()));
  request.inherited_fds.push_back(theirs.get());
  DDPRUN_ASSIGN(const pid_t pid, processes.Spawn(request));
  return std::unique_ptr<TemplateClient>(
      new TemplateClient(io, std::move(ours), pid, std::move(on_ready)));
}

TemplateClient::TemplateClient(asio::io_context& io,
                               UniqueFd socket,
                               pid_t pid,
                               std::function<void()> on_ready)
    : socket_(io, socket.release()), pid_(pid), on_ready_(std::move(on_ready)) {
  Receive();
}

void TemplateClient::ForkWorkers(const std::vector<ForkOrder>& orders,
                                 std::function<void(Result<std::vector<pid_t>>)> done) {
  forked_ = std::move(done);
  expected_pids_ = orders.size();
  for (const ForkOrder& order : orders) {
    json env = json::object(), unset = {kSocketVariable}, argv = json::array();
    for (const auto& [name, value] : order.env.set)
      env[CharactersOfBytes(name)] = CharactersOfBytes(value);
    for (const std::string& name : order.env.unset) unset.push_back(CharactersOfBytes(name));
    for (const auto& [place, word] : order.argv) argv.push_back({place, CharactersOfBytes(word)});
    Message message;
    message.text = json{{"fork",
                         {{"local_rank", order.local_rank},
                          {"env", std::move(env)},
                          {"unset", std::move(unset)},
                          {"argv", std::move(argv)}}}}
                       .dump();
    for (const int fd : order.fds) message.fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    outgoing_.push_back(std::move(message));
  }
  outgoing_.push_back(Message{json{{"go", {{"agent_pid", ::getpid()}}}}.dump(), {}});
  Send();
}

void TemplateClient::Receive() {
  socket_.async_wait(
      asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
        if (error) return;
        std::string text(kMaxMessageBytes, '\0');
        const ssize_t got = ::recv(socket_.native_handle(), text.data(), text.size(), MSG_DONTWAIT);
        if (got > 0) {
          text.resize(static_cast<size_t>(got));
          Handle(text);
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
          return;  // the template has closed the socket; its exit status follows
        }
        Receive();
      });
}

void TemplateClient::Handle(const std::string& text) {
  const json message = ParseUntrustedJson(text);
  if (message.is_object() && message.contains("ready")) {
    if (on_ready_) std::exchange(on_ready_, nullptr)();
    return;
  }
  std::vector<pid_t> pids;
  if (message.is_object() && message.contains("pids") && message["pids"].is_array()) {
    for (const json& pid : message["pids"]) {
      if (pid.is_number_integer()) pids.push_back(pid.get<pid_t>());
    }
  }
  if (!forked_) return;
  if (pids.size() != expected_pids_) return FailFork("gave a wrong answer: " + text.substr(0, 200));
  std::exchange(forked_, nullptr)(std::move(pids));
}

void TemplateClient::Send() {
  while (!outgoing_.empty()) {
    const Message& next = outgoing_.front();
    const int error_number = SendMessage(socket_.native_handle(), next.text, next.fds);
    if (error_number == EAGAIN) {
      socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                         [this](const asio::error_code& error) {
                           if (!error) Send();
                         });
      return;
    }
    // EPIPE means that the template has closed the socket: OnExit() follows. Reports other errors.
    if (error_number != 0) {
      outgoing_.clear();
      if (error_number != EPIPE) FailFork("cannot be reached: " + ErrnoText(error_number));
      return;
    }
    outgoing_.pop_front();
  }
}

void TemplateClient::OnExit(const ProcessExit& exit) {
  FailFork(DescribeExit(exit));
}

void TemplateClient::FailFork(const std::string& why) {
  if (forked_) std::exchange(forked_, nullptr)(TemplateGone(why));
}

}  // namespace ddprun::launcher
