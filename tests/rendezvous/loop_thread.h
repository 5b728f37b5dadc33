// An event loop in a thread of its own, for tests that drive it with blocking clients.
#pragma once

#include <future>
#include <memory>
#include <thread>
#include <utility>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "rendezvous/net/address.h"
#include "rendezvous/net/socket.h"
#include "rendezvous/store/store_server.h"

namespace ddprun::rendezvous {

class LoopThread {
 public:
  LoopThread() : work_(asio::make_work_guard(io_)), thread_([this] { io_.run(); }) {}
  ~LoopThread() {
    io_.stop();
    thread_.join();
  }

  asio::io_context& io() { return io_; }

  // Runs `action` on the loop and gives its result.
  template <typename Action>
  auto Do(Action action) {
    std::packaged_task<decltype(action())()> task(std::move(action));
    auto result = task.get_future();
    asio::post(io_, std::move(task));
    return result.get();
  }

 private:
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

// A server on a loop thread, on a free port of the loopback.
class ServedStore {
 public:
  explicit ServedStore(StoreServerLimits limits = {}) {
    loop_.Do([&] {
      server_ = *StoreServer::Listen(loop_.io(), asio::ip::address_v4::loopback(), 0, limits);
    });
  }
  ~ServedStore() { Stop(); }

  void Stop() {
    loop_.Do([this] { server_.reset(); });
  }
  HostPort endpoint() {
    return {"127.0.0.1", loop_.Do([this] { return server_->port(); })};
  }
  LoopThread& loop() { return loop_; }
  StoreServer& server() { return *server_; }  // on the loop only

 private:
  LoopThread loop_;
  std::unique_ptr<StoreServer> server_;
};

inline Deadline Soon() {
  return DeadlineAfter(std::chrono::seconds(20));
}

}  // namespace ddprun::rendezvous
