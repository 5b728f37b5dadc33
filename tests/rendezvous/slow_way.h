// A proxy from a node to node 0 that delays answers and breaks single connections.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

namespace ddprun::rendezvous {

class SlowWay {
 public:
  using tcp = asio::ip::tcp;

  // `lateness` is called for each answer.
  SlowWay(asio::io_context& io, uint16_t to, std::function<std::chrono::milliseconds()> lateness)
      : io_(io),
        to_(asio::ip::address_v4::loopback(), to),
        lateness_(std::move(lateness)),
        acceptor_(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    Accept();
  }
  ~SlowWay() { Break(""); }

  uint16_t port() const { return acceptor_.local_endpoint().port(); }

  bool HasSent(std::string_view text) { return TimesSent(text) > 0; }
  // How often the nodes have sent `text` over the connections that are open.
  size_t TimesSent(std::string_view text) {
    size_t times = 0;
    for (const auto& pipe : Open()) {
      for (size_t at = 0; (at = pipe->sent.find(text, at)) != std::string::npos; ++at) ++times;
    }
    return times;
  }
  // Breaks the connections over which the node has sent `text`.
  void Break(std::string_view text) {
    for (const auto& pipe : Open()) {
      if (pipe->sent.find(text) != std::string::npos) pipe->Close();
    }
  }
  void BreakOne(size_t index) {
    const auto open = Open();
    if (!open.empty()) open[index % open.size()]->Close();
  }

 private:
  struct Pipe : std::enable_shared_from_this<Pipe> {
    Pipe(asio::io_context& io, tcp::socket accepted)
        : node(std::move(accepted)), node_0(io), timer(io) {}

    void Close() {
      asio::error_code ignored;
      for (tcp::socket* end : {&node, &node_0}) {
        end->cancel(ignored);
        end->close(ignored);
      }
      timer.cancel();
    }
    bool open() const { return node.is_open(); }

    void PassRequests() {
      node.async_read_some(asio::buffer(up), [self = shared_from_this()](auto error, size_t size) {
        if (error) return self->Close();
        self->sent.append(self->up.data(), size);
        asio::error_code failed;
        asio::write(self->node_0, asio::buffer(self->up.data(), size), failed);
        failed ? self->Close() : self->PassRequests();
      });
    }
    // `lateness` outlives every open pipe.
    void PassAnswers(const std::function<std::chrono::milliseconds()>& lateness) {
      const auto then = [self = shared_from_this(), &lateness](auto error, size_t size) {
        if (error || !self->open()) return self->Close();
        self->timer.expires_after(lateness());
        self->timer.async_wait([self, size, &lateness](auto cancelled) {
          if (cancelled || !self->open()) return;
          asio::error_code failed;
          asio::write(self->node, asio::buffer(self->down.data(), size), failed);
          failed ? self->Close() : self->PassAnswers(lateness);
        });
      };
      node_0.async_read_some(asio::buffer(down), then);
    }

    tcp::socket node;
    tcp::socket node_0;
    asio::steady_timer timer;
    std::array<char, 4096> up;
    std::array<char, 4096> down;
    std::string sent;
  };

  std::vector<std::shared_ptr<Pipe>> Open() {
    std::erase_if(pipes_, [](const auto& pipe) { return !pipe->open(); });
    return pipes_;
  }

  void Accept() {
    acceptor_.async_accept([this](const asio::error_code& error, tcp::socket node) {
      if (error) return;
      const auto pipe = std::make_shared<Pipe>(io_, std::move(node));
      asio::error_code refused;
      pipe->node_0.connect(to_, refused);
      if (!refused) {
        pipes_.push_back(pipe);
        pipe->PassRequests();
        pipe->PassAnswers(lateness_);
      }
      Accept();
    });
  }

  asio::io_context& io_;
  const tcp::endpoint to_;
  const std::function<std::chrono::milliseconds()> lateness_;
  tcp::acceptor acceptor_;
  std::vector<std::shared_ptr<Pipe>> pipes_;
};

}  // namespace ddprun::rendezvous
