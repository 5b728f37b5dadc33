// A server of another protocol, which sends a greeting to each connection.
#pragma once

#include <list>
#include <string>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>

namespace ddprun::rendezvous {

class ForeignServer {
 public:
  ForeignServer(asio::io_context& io, uint16_t port, std::string greeting)
      : greeting_(std::move(greeting)),
        acceptor_(io, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), port)) {
    Accept();
  }

 private:
  void Accept() {
    acceptor_.async_accept([this](const asio::error_code& error, asio::ip::tcp::socket client) {
      if (error) return;
      clients_.push_back(std::move(client));
      asio::error_code ignored;
      asio::write(clients_.back(), asio::buffer(greeting_), ignored);
      Accept();
    });
  }

  const std::string greeting_;
  asio::ip::tcp::acceptor acceptor_;
  std::list<asio::ip::tcp::socket> clients_;
};

}  // namespace ddprun::rendezvous
