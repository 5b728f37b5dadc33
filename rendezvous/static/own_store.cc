#include "rendezvous/static/own_store.h"

#include <utility>

#include <asio/post.hpp>

#include "rendezvous/store_host.h"

namespace ddprun::rendezvous {

namespace {

constexpr std::chrono::milliseconds kLookUpPause{500};

}  // namespace

void OwnStore::Open(std::function<void()> then) {
  then_ = std::move(then);
  if (node_.round == 0) return LookUpOwn();
  asio::post(node_.io, node_.InRound([this] { Listen(); }));
}

void OwnStore::Reset() {
  pause_.cancel();
  resolve_.reset();
  then_ = nullptr;
}

void OwnStore::LookUpOwn() {
  if (!node_.joining()) return;
  const std::string& host = node_.options.endpoint.host;
  resolve_ = std::make_unique<AsyncResolve>(
      node_.io, host,
      node_.InRound([this, host](const Result<std::vector<asio::ip::address>>& found) {
        if (!found.has_value()) {
          // The name may become known. Until then the store must not listen on all addresses.
          node_.ReportLine("waiting for the name of node 0: " + found.error().what);
          return node_.After(pause_, kLookUpPause, [this] { LookUpOwn(); });
        }
        addresses_ = OwnAddresses(host, *found, node_.nnodes);
        if (addresses_.empty()) {
          node_.ReportLine("listening on all addresses: " + host +
                           " is not known as an address of this machine");
        }
        Listen();
      }));
}

void OwnStore::Listen() {
  const bool replace = node_.alone() || node_.round == 0;
  std::unique_ptr<StoreServer>& opened = replace ? node_.server : node_.round_server;
  opened.reset();
  const uint16_t port = replace ? node_.options.endpoint.port : uint16_t{0};
  auto server = ListenOnOwn(node_.io, addresses_, port);
  if (!server.has_value()) {
    const bool taken =
        server.error().code == Code::kAddressInUse && !node_.alone() && node_.round == 0;
    return taken ? identity_.FailWithoutPort(server.error())
                 : node_.EndJoin(std::move(server).error());
  }
  opened = *std::move(server);
  opened->Protect({.gate = node_.options.gate, .on_refused = node_.options.on_progress});
  if (!node_.alone() && node_.round == 0) Publish(opened->port());
  if (const auto then = std::exchange(then_, nullptr)) then();
}

void OwnStore::Publish(uint16_t port) {
  node_.hosted_by_ddprun = true;
  node_.ReportLine(ExposureWarning(addresses_, port, node_.options.gate.get()));
  // A node that finds no room would let all others wait for the whole time.
  node_.server->OnExhausted([this](const Error& error) {
    if (node_.joining()) return node_.EndJoin(error);
    if (node_.options.on_progress) node_.options.on_progress("warning: " + error.what);
  });
  identity_.PublishHost();
  if (addresses_.empty()) identity_.FindSecondHost();
}

}  // namespace ddprun::rendezvous
