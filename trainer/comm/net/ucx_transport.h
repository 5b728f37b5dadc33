// A Transport that uses UCX. Internal to its folder.
#pragma once

#include <unordered_map>

#include "trainer/comm/net/polled_transport.h"
#include "trainer/comm/net/ucx_api.h"

namespace ddprun::trainer {

class UcxTransport : public PolledTransport {
 public:
  UcxTransport(const UcxApi& ucx, int rank, std::chrono::nanoseconds spin)
      : PolledTransport(spin), ucx_(ucx), rank_(rank) {}
  ~UcxTransport() override;
  // Opens the devices. Call it before all other methods.
  Status Open(const std::vector<std::string>& devices);

  const std::string& address() const override { return address_; }
  void SetPeers(std::vector<std::string> addresses) override;
  Handle Send(int to,
              uint64_t tag,
              const void* data,
              size_t bytes,
              std::shared_ptr<const void> keeps = {}) override;
  Handle Receive(int from, uint64_t tag, void* data, size_t bytes) override;
  std::optional<Arrived> Find(uint64_t tag, uint64_t mask) override;
  Handle Take(const Arrived& arrived, void* data) override;
  void Cancel(const Handle& request) override;
  void Abort() override;

 private:
  // A rank of another process. UCX keeps a pointer to its Peer, so it must not move.
  struct Peer {
    std::string address;
    ucp_ep_h endpoint = nullptr;
    ucs_status_t failed = UCS_OK;
    bool reported = false;  // its receives have been cancelled
  };
  struct UcxRequest : Request {
    UcxTransport* owner = nullptr;
    int peer = -1;  // -1: any
    bool receives = false;
    void* ucx = nullptr;
    std::shared_ptr<const void> keeps;  // owns a send's data
  };
  using Pending = std::shared_ptr<UcxRequest>;

  Result<ucp_config_t*> Configure(const std::vector<std::string>& devices);
  Status OpenWorker();
  // REQUIRES for the functions below, up to Lost(): the caller holds the mutex.
  ucs_status_t Connect(Peer& peer);
  Handle Start(const Pending& request, ucs_status_ptr_t started);
  void Finish(UcxRequest& request, ucs_status_t status, size_t bytes);
  bool ProgressLocked() override;
  bool Arm() override { return ucx_.worker_arm(worker_) == UCS_OK; }
  int events() const override { return event_fd_; }
  void ReportFailedPeers();
  void CancelReceives(int peer);
  void Flush();
  void CloseEndpoints();
  Error Lost(const UcxRequest& request, ucs_status_t status) const;

  static void OnSent(void* ucx_request, ucs_status_t status, void* request);
  static void OnReceived(void* ucx_request,
                         ucs_status_t status,
                         const ucp_tag_recv_info_t* info,
                         void* request);
  static void OnPeerFailed(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  const UcxApi& ucx_;
  const int rank_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::string address_;

  // The mutex guards the members below, and all calls of UCX.
  bool aborted_ = false;
  std::vector<Peer> peers_;
  std::unordered_map<UcxRequest*, Pending> pending_;
};

}  // namespace ddprun::trainer
