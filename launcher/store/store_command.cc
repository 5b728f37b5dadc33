#include "launcher/store/store_command.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include <asio/io_context.hpp>

#include "base/log.h"
#include "base/open_file_limit.h"
#include "base/result.h"
#include "launcher/output/stream_writer.h"
#include "launcher/process/signals.h"
#include "rendezvous/elastic/coordinator.h"
#include "rendezvous/secure/token_gate.h"
#include "rendezvous/store_host.h"

namespace ddprun::launcher {

namespace {

using rendezvous::HostPort;
using rendezvous::StoreServer;

// Returns the addresses of `host`; none means all addresses of this machine.
Result<std::vector<asio::ip::address>> AddressesOf(const std::string& host) {
  if (host.empty()) return std::vector<asio::ip::address>();
  auto addresses = rendezvous::ResolveLocally(host);
  if (!addresses.empty()) return addresses;
  return rendezvous::ResolveByNameServer(host);
}

// Replaces hints that name flags of a job.
Error ForThisCommand(Error error) {
  if (error.code == Code::kAddressInUse) {
    error.hint = "Choose another one with --port; 0 takes a free one.";
  }
  if (error.code == Code::kCannotListen) error.hint = "Check --host and --port.";
  return error;
}

void PrintAddress(const StoreServeOptions& options, uint16_t port, const Log& log) {
  const std::string place =
      ToString(HostPort{options.host.empty() ? rendezvous::HostName() : options.host, port});
  std::printf("listening on %s\n", place.c_str());
  std::fflush(stdout);
  log.Info("nodes join with --rdzv_backend=c10d --rdzv_endpoint=" + place +
           ", torchrun's also with --rdzv_conf=is_host=0");
}

// Serves until SIGTERM, SIGINT, SIGHUP or SIGQUIT. Only its address is on stdout.
Result<int> ServeStore(const StoreServeOptions& options, Environment env) {
  DDPRUN_ASSIGN(const std::shared_ptr<rendezvous::Gate> gate, rendezvous::TakeGate(env));
  const SignalMask mask;
  // Each connection needs a descriptor, and the usual limit of 1024 is too low for large jobs.
  const OpenFileLimit files;
  asio::io_context io;
  DDPRUN_ASSIGN(const auto addresses, AddressesOf(options.host));
  auto listening = rendezvous::ListenOnOwn(io, addresses, options.port);
  if (!listening.has_value()) return ForThisCommand(std::move(listening).error());
  const std::unique_ptr<StoreServer> server = *std::move(listening);
  // A writer that does not block, because jobs must not wait for a reader of stderr.
  StreamWriter err(io, STDERR_FILENO);
  const auto say = [&err](std::string_view text) {
    if (!err.IsFull()) err.WriteLines(text);
  };
  server->OnExhausted([say](const Error& error) { say(Render(error)); });
  DDPRUN_ASSIGN(const auto signals, SignalReader::Create(io, mask, [&](int signal, pid_t) {
                  if (signal == SIGUSR1) {
                    say(StatusText(server->Summary()));
                  } else if (signal != SIGUSR2 && signal != SIGCHLD) {
                    io.stop();
                  }
                }));
  rendezvous::CoordinatorOptions coordination;
  const Log log({.name = "ddprun store"}, say);
  coordination.on_log = [&log](const std::string& line) { log.Info(line); };
  rendezvous::Coordinator coordinator(io, coordination);
  coordinator.ServeOn(*server);
  // It may serve all users of its machine.
  server->Protect({.gate = gate, .own_user_only = false, .on_refused = coordination.on_log});
  PrintAddress(options, server->port(), log);
  const std::string warning = rendezvous::ExposureWarning(addresses, server->port(), gate.get());
  if (!warning.empty()) coordination.on_log(warning);
  io.run();
  return 0;
}

}  // namespace

Result<int> RunStoreCommand(const std::vector<std::string>& args, const Environment& env) {
  DDPRUN_ASSIGN(const StoreOptions options, ParseStoreOptions(args, env));
  if (const auto* help = std::get_if<StoreHelp>(&options)) {
    std::fputs(help->text.c_str(), stdout);
    return 0;
  }
  if (const auto* serve = std::get_if<StoreServeOptions>(&options)) {
    return ServeStore(*serve, env);
  }
  return QueryStore(std::get<StoreQueryOptions>(options), stdout);
}

}  // namespace ddprun::launcher
