// The functions of UCX that ddprun calls. LoadUcx() looks them up when the first group on several
// nodes is made, so that programs start fast and run on machines without UCX.
#pragma once

#include <ucp/api/ucp.h>

#include "base/result.h"

namespace ddprun::trainer {

struct UcxApi {
  decltype(&::ucp_config_read) config_read = nullptr;
  decltype(&::ucp_config_modify) config_modify = nullptr;
  decltype(&::ucp_config_release) config_release = nullptr;
  decltype(&::ucp_init_version) init_version = nullptr;
  decltype(&::ucp_cleanup) cleanup = nullptr;
  decltype(&::ucp_worker_create) worker_create = nullptr;
  decltype(&::ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&::ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&::ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&::ucp_worker_get_efd) worker_get_efd = nullptr;
  decltype(&::ucp_worker_progress) worker_progress = nullptr;
  decltype(&::ucp_worker_arm) worker_arm = nullptr;
  decltype(&::ucp_worker_signal) worker_signal = nullptr;
  decltype(&::ucp_worker_flush_nbx) worker_flush_nbx = nullptr;
  decltype(&::ucp_ep_create) ep_create = nullptr;
  decltype(&::ucp_ep_close_nbx) ep_close_nbx = nullptr;
  decltype(&::ucp_tag_send_nbx) tag_send_nbx = nullptr;
  decltype(&::ucp_tag_recv_nbx) tag_recv_nbx = nullptr;
  decltype(&::ucp_tag_probe_nb) tag_probe_nb = nullptr;
  decltype(&::ucp_tag_msg_recv_nbx) tag_msg_recv_nbx = nullptr;
  decltype(&::ucp_request_check_status) request_check_status = nullptr;
  decltype(&::ucp_request_cancel) request_cancel = nullptr;
  decltype(&::ucp_request_free) request_free = nullptr;
  decltype(&::ucs_status_string) status_string = nullptr;
};

// Loads UCX, once per process. UCX then sets no signal handlers and writes nothing to stdout,
// unless the user's UCX_* variables ask for it. Call it only after the last fork. Any thread.
Result<const UcxApi*> LoadUcx();

}  // namespace ddprun::trainer
