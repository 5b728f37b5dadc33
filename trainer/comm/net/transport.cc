#include "trainer/comm/net/transport.h"

#include "trainer/comm/net/tcp_transport.h"
#include "trainer/comm/net/ucx_transport.h"

namespace ddprun::trainer {

Result<std::unique_ptr<Transport>> Transport::Create(const Options& options) {
  if (options.kind == Kind::kTcp) {
    auto transport = std::make_unique<TcpTransport>(options.rank, options.spin);
    DDPRUN_TRY(transport->Open(options.own_address));
    return std::unique_ptr<Transport>(std::move(transport));
  }
  DDPRUN_ASSIGN(const UcxApi* ucx, LoadUcx());
  auto transport = std::make_unique<UcxTransport>(*ucx, options.rank, options.spin);
  DDPRUN_TRY(transport->Open(options.devices));
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace ddprun::trainer
