#include "trainer/comm/net/ucx_transport.h"

#include <algorithm>

#include "base/check.h"
#include "base/env.h"
#include "base/text.h"
#include "trainer/comm/net/transport_errors.h"

namespace ddprun::trainer {

namespace {

using Clock = std::chrono::steady_clock;

Error UcxError(const UcxApi& ucx, const std::string& doing, ucs_status_t status) {
  return Error{.title = "UCX FAILED",
               .what = doing + ": " + ucx.status_string(status) + ".",
               .hint =
                   "UCX_LOG_LEVEL=info in the environment shows more. DDPRUN_NET_INTERFACE "
                   "names the network interface to use.",
               .page = "ucx-failed"};
}

}  // namespace

// Reads UCX's configuration. The user's UCX_* variables have precedence.
Result<ucp_config_t*> UcxTransport::Configure(const std::vector<std::string>& devices) {
  ucp_config_t* config = nullptr;
  const ucs_status_t read = ucx_.config_read(nullptr, nullptr, &config);
  if (read != UCS_OK) return UcxError(ucx_, "Reading the UCX_* variables", read);
  const Environment environment = Environment::OfProcess();
  const auto set = [&](const char* name, const std::string& value) {
    if (!environment.Get(std::string("UCX_") + name)) {
      ucx_.config_modify(config, name, value.c_str());
    }
  };
  // Not for ranks of one node, because NodeGroup is faster there. Messages are in the host's
  // memory, so UCX opens no GPU.
  set("TLS", "^sm,cuda");
  if (!devices.empty()) set("NET_DEVICES", FormatList(devices, ","));
  // Over TCP no rendezvous, because it costs a round trip, and running messages delay each other.
  const bool rdma = std::any_of(devices.begin(), devices.end(), [](const std::string& device) {
    return device.find(':') != std::string::npos;
  });
  if (!devices.empty() && !rdma) set("RNDV_THRESH", "inf");
  return config;
}

Status UcxTransport::Open(const std::vector<std::string>& devices) {
  DDPRUN_ASSIGN(ucp_config_t* const config, Configure(devices));
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  params.name = "ddprun";
  const ucs_status_t status =
      ucx_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  ucx_.config_release(config);
  if (status != UCS_OK) {
    return UcxError(ucx_, "Opening the network devices " + FormatList(devices, ","), status);
  }
  return OpenWorker();
}

Status UcxTransport::OpenWorker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ucx_.worker_create(context_, &params, &worker_);
  if (status != UCS_OK) return UcxError(ucx_, "Creating a worker", status);
  status = ucx_.worker_get_efd(worker_, &event_fd_);
  if (status != UCS_OK) return UcxError(ucx_, "Asking for the event descriptor", status);
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  status = ucx_.worker_get_address(worker_, &address, &bytes);
  if (status != UCS_OK) return UcxError(ucx_, "Asking for the own address", status);
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucx_.worker_release_address(worker_, address);
  return {};
}

UcxTransport::~UcxTransport() {
  if (worker_ != nullptr) {
    const std::lock_guard lock(mutex_);
    if (!aborted_) Flush();
    CloseEndpoints();
    ucx_.worker_destroy(worker_);
  }
  if (context_ != nullptr) ucx_.cleanup(context_);
}

void UcxTransport::SetPeers(std::vector<std::string> addresses) {
  const std::lock_guard lock(mutex_);
  peers_.resize(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) peers_[i].address = std::move(addresses[i]);
}

ucs_status_t UcxTransport::Connect(Peer& peer) {
  if (peer.failed != UCS_OK || peer.endpoint != nullptr) return peer.failed;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = OnPeerFailed, .arg = &peer};
  return ucx_.ep_create(worker_, &params, &peer.endpoint);
}

void UcxTransport::OnPeerFailed(void* peer, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  static_cast<Peer*>(peer)->failed = status;
}

Error UcxTransport::Lost(const UcxRequest& request, ucs_status_t status) const {
  if (status == UCS_ERR_MESSAGE_TRUNCATED) return MessageTooLong(rank_, request.peer);
  return ConnectionToRankLost(rank_, request.peer, request.receives, ucx_.status_string(status));
}

void UcxTransport::Finish(UcxRequest& request, ucs_status_t status, size_t bytes) {
  if (status != UCS_OK) {
    const bool knows_better = request.peer >= 0 && status == UCS_ERR_CANCELED &&
                              peers_[static_cast<size_t>(request.peer)].failed != UCS_OK;
    request.status =
        Lost(request, knows_better ? peers_[static_cast<size_t>(request.peer)].failed : status);
  }
  request.bytes = bytes;
  if (request.ucx != nullptr) ucx_.request_free(request.ucx);
  request.ucx = nullptr;
  request.keeps.reset();
  request.done.store(true, std::memory_order_release);
  completions_.fetch_add(1, std::memory_order_release);
  pending_.erase(&request);  // may destroy the request
}

void UcxTransport::OnSent(void* ucx_request, ucs_status_t status, void* request) {
  auto& sent = *static_cast<UcxRequest*>(request);
  sent.ucx = ucx_request;
  sent.owner->Finish(sent, status, 0);
}

void UcxTransport::OnReceived(void* ucx_request,
                              ucs_status_t status,
                              const ucp_tag_recv_info_t* info,
                              void* request) {
  auto& received = *static_cast<UcxRequest*>(request);
  received.ucx = ucx_request;
  received.owner->Finish(received, status, status == UCS_OK ? info->length : 0);
}

// `started` is what UCX has returned. A callback may have finished the request already.
Transport::Handle UcxTransport::Start(const Pending& request, ucs_status_ptr_t started) {
  if (UCS_PTR_IS_PTR(started)) {
    if (!request->done.load(std::memory_order_relaxed)) request->ucx = started;
  } else {
    Finish(*request, UCS_PTR_STATUS(started), 0);
  }
  // Wakes the thread that waits for events, because it may now have to wait for other events.
  if (somebody_waits_) ucx_.worker_signal(worker_);
  return request;
}

Transport::Handle UcxTransport::Send(
    int to, uint64_t tag, const void* data, size_t bytes, std::shared_ptr<const void> keeps) {
  const std::lock_guard lock(mutex_);
  DDPRUN_CHECK(to >= 0 && static_cast<size_t>(to) < peers_.size());
  auto request = std::make_shared<UcxRequest>();
  request->owner = this;
  request->peer = to;
  request->keeps = std::move(keeps);
  Peer& peer = peers_[static_cast<size_t>(to)];
  const ucs_status_t connected = aborted_ ? UCS_ERR_CANCELED : Connect(peer);
  pending_.emplace(request.get(), request);
  if (connected != UCS_OK) return Start(request, UCS_STATUS_PTR(connected));
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.send = OnSent;
  params.user_data = request.get();
  return Start(request, ucx_.tag_send_nbx(peer.endpoint, data, bytes, tag, &params));
}

Transport::Handle UcxTransport::Receive(int from, uint64_t tag, void* data, size_t bytes) {
  const std::lock_guard lock(mutex_);
  DDPRUN_CHECK(from >= 0 && static_cast<size_t>(from) < peers_.size());
  auto request = std::make_shared<UcxRequest>();
  request->owner = this;
  request->peer = from;
  request->receives = true;
  pending_.emplace(request.get(), request);
  if (aborted_) return Start(request, UCS_STATUS_PTR(UCS_ERR_CANCELED));
  ucp_request_param_t params{};
  params.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  params.cb.recv = OnReceived;
  params.user_data = request.get();
  Handle handle =
      Start(request, ucx_.tag_recv_nbx(worker_, data, bytes, tag, ~uint64_t{0}, &params));
  // Messages that the peer sent before it failed have arrived already.
  if (peers_[static_cast<size_t>(from)].failed != UCS_OK) CancelReceives(from);
  return handle;
}

std::optional<Transport::Arrived> UcxTransport::Find(uint64_t tag, uint64_t mask) {
  const std::lock_guard lock(mutex_);
  if (aborted_) return std::nullopt;
  ucp_tag_recv_info_t info{};
  ucp_tag_message_h message = ucx_.tag_probe_nb(worker_, tag, mask, 1, &info);
  if (message == nullptr) return std::nullopt;
  return Arrived{.tag = info.sender_tag, .bytes = info.length, .message = message};
}

Transport::Handle UcxTransport::Take(const Arrived& arrived, void* data) {
  const std::lock_guard lock(mutex_);
  auto request = std::make_shared<UcxRequest>();
  request->owner = this;
  request->receives = true;
  pending_.emplace(request.get(), request);
  ucp_request_param_t params{};
  params.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  params.cb.recv = OnReceived;
  params.user_data = request.get();
  auto* const message = static_cast<ucp_tag_message_h>(arrived.message);
  return Start(request, ucx_.tag_msg_recv_nbx(worker_, data, arrived.bytes, message, &params));
}

bool UcxTransport::ProgressLocked() {
  const unsigned events = ucx_.worker_progress(worker_);
  ReportFailedPeers();
  return events != 0;
}

void UcxTransport::ReportFailedPeers() {
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].failed == UCS_OK || peers_[i].reported) continue;
    peers_[i].reported = true;
    CancelReceives(static_cast<int>(i));
  }
}

// Cancels the receives from `peer`; -1 means all.
void UcxTransport::CancelReceives(int peer) {
  std::vector<void*> running;
  for (const auto& [key, request] : pending_) {
    const bool concerned = peer < 0 || request->peer == peer;
    if (request->receives && concerned && request->ucx != nullptr) running.push_back(request->ucx);
  }
  for (void* request : running) ucx_.request_cancel(worker_, request);
}

// Waits, at most kFarewell, until all sends have left.
void UcxTransport::Flush() {
  const Clock::time_point end = Clock::now() + kFarewell;
  const auto sends = [&] {
    return std::any_of(pending_.begin(), pending_.end(),
                       [](const auto& pending) { return !pending.second->receives; });
  };
  while (sends() && Clock::now() < end) ucx_.worker_progress(worker_);
  ucp_request_param_t params{};
  void* const request = ucx_.worker_flush_nbx(worker_, &params);
  if (!UCS_PTR_IS_PTR(request)) return;
  while (ucx_.request_check_status(request) == UCS_INPROGRESS && Clock::now() < end) {
    ucx_.worker_progress(worker_);
  }
  ucx_.request_free(request);
}

// Closes by force, because an orderly close waits for the other end to close, too.
void UcxTransport::CloseEndpoints() {
  std::vector<void*> closing;
  for (Peer& peer : peers_) {
    if (peer.endpoint == nullptr) continue;
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_EP_CLOSE_FLAG_FORCE;
    void* const request = ucx_.ep_close_nbx(peer.endpoint, &params);
    if (UCS_PTR_IS_PTR(request)) closing.push_back(request);
    peer.endpoint = nullptr;
  }
  CancelReceives(-1);
  const Clock::time_point end = Clock::now() + kFarewell;
  const auto all_closed = [&] {
    return std::all_of(closing.begin(), closing.end(), [&](void* request) {
      return ucx_.request_check_status(request) != UCS_INPROGRESS;
    });
  };
  while (Clock::now() < end && !(all_closed() && pending_.empty())) ucx_.worker_progress(worker_);
  for (void* request : closing) ucx_.request_free(request);
}

void UcxTransport::Cancel(const Handle& request) {
  const std::lock_guard lock(mutex_);
  const auto it = pending_.find(static_cast<UcxRequest*>(request.get()));
  if (it == pending_.end()) return;
  const Pending pending = it->second;
  ucx_.request_cancel(worker_, pending->ucx);
  const Clock::time_point end = Clock::now() + kFarewell;
  while (!pending->done && Clock::now() < end) ucx_.worker_progress(worker_);
}

void UcxTransport::Abort() {
  const std::lock_guard lock(mutex_);
  if (aborted_) return;
  aborted_ = true;
  CloseEndpoints();
  WakeOthers();
}

}  // namespace ddprun::trainer
