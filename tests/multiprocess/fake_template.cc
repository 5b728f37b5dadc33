// Stands in for ddp-trainer in tests: speaks the template protocol (launcher/template_client.h)
// without LibTorch. Its config: {"command": [...], "exit_before_ready": n, "hang": true,
// "killed_when_ready": file, "killed_when_asked": file}: the latter two kill it once, and make the
// file.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace {

using nlohmann::json;

struct Order {
  json fork;
  std::vector<int> fds;
};

void Send(int socket, const json& message) {
  const std::string text = message.dump();
  if (::send(socket, text.data(), text.size(), MSG_NOSIGNAL) < 0) ::_exit(3);
}

// One datagram with its descriptors; false when the agent has closed the socket.
bool Receive(int socket, json& message, std::vector<int>& fds) {
  std::vector<char> text(64 << 10);
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(5 * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket, &header, 0);
  if (got <= 0) return false;
  fds.clear();
  if (const cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr) {
    fds.resize((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(fds.data(), CMSG_DATA(rights), fds.size() * sizeof(int));
  }
  message = json::parse(text.begin(), text.begin() + got);
  return true;
}

[[noreturn]] void RunWorker(const Order& order, const json& command, int gate, pid_t agent) {
  char byte = 0;
  while (::read(gate, &byte, 1) > 0) {
  }
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != agent) ::_exit(137);
  for (int i = 0; i < 3; ++i) ::dup2(order.fds[i], i);
  for (const auto& [name, value] : order.fork["env"].items()) {
    ::setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  }
  for (const json& name : order.fork["unset"]) ::unsetenv(name.get<std::string>().c_str());
  ::setenv("DDPRUN_NODE_MEMORY_FD", std::to_string(order.fds[3]).c_str(), 1);
  if (order.fds.size() > 4) {
    ::setenv("DDPRUN_FLIGHT_RECORDER_FD", std::to_string(order.fds[4]).c_str(), 1);
  }
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

void ForkAll(int socket, const std::vector<Order>& orders, const json& command, pid_t agent) {
  int gate[2];
  if (::pipe(gate) != 0) ::_exit(4);
  const pid_t middle = ::fork();
  if (middle == 0) {
    std::vector<pid_t> pids;
    for (const Order& order : orders) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        ::close(gate[1]);
        RunWorker(order, command, gate[0], agent);
      }
      pids.push_back(pid);
    }
    Send(socket, {{"pids", pids}});
    ::_exit(0);
  }
  ::waitpid(middle, nullptr, 0);
  for (const Order& order : orders) {
    for (const int fd : order.fds) ::close(fd);
  }
  ::close(gate[0]);
  ::close(gate[1]);
}

void DieOnce(const json& config, const char* when) {
  if (!config.contains(when)) return;
  const std::string path = config[when];
  if (::access(path.c_str(), F_OK) == 0) return;
  std::ofstream(path).flush();
  ::kill(::getpid(), SIGKILL);
}

}  // namespace

int main(int argc, char** argv) {
  const char* fd_text = std::getenv("DDPRUN_TEMPLATE_FD");
  if (argc < 3 || fd_text == nullptr) return 64;
  const int socket = std::atoi(fd_text);
  std::ifstream file(argv[2]);
  const json config = json::parse(file, nullptr, false);
  if (!config.is_object() || !config.contains("command")) {
    std::fprintf(stderr, "%s: no command\n", argv[2]);
    return 2;
  }
  if (config.contains("exit_before_ready")) return config["exit_before_ready"].get<int>();
  while (config.contains("hang")) ::pause();
  Send(socket, {{"ready", true}});
  DieOnce(config, "killed_when_ready");
  std::vector<Order> orders;
  json message;
  std::vector<int> fds;
  while (Receive(socket, message, fds)) {
    if (message.contains("fork")) orders.push_back({message["fork"], fds});
    if (message.contains("go")) {
      DieOnce(config, "killed_when_asked");
      ForkAll(socket, orders, config["command"], message["go"]["agent_pid"].get<pid_t>());
      orders.clear();
    }
  }
  return 0;
}
