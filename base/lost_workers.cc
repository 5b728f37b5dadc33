#include "base/lost_workers.h"

#include <sys/mman.h>

#include "base/flight_page.h"

namespace ddprun {

namespace {

uint64_t NowNs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}

}  // namespace

Status MarkLostElsewhere(const UniqueFd& file, int rank, int generation) {
  DDPRUN_ASSIGN(void* address, MapFlightPages(file, 0, 1, PROT_READ | PROT_WRITE));
  auto* page = static_cast<FlightPage*>(address);
  Put(page->lost_elsewhere[0], static_cast<uint64_t>(rank));
  Put(page->lost_elsewhere[1], NowNs());
  Put(page->lost_elsewhere[2], static_cast<uint64_t>(generation));
  ::munmap(page, kFlightPageBytes);
  return {};
}

Status MarkLost(const UniqueFd& file, int local_rank, int generation) {
  DDPRUN_ASSIGN(void* address, MapFlightPages(file, local_rank, 1, PROT_READ | PROT_WRITE));
  auto* page = static_cast<FlightPage*>(address);
  Put(page->lost_ns, NowNs());
  Put(page->lost, static_cast<uint64_t>(generation));
  ::munmap(page, kFlightPageBytes);
  return {};
}

}  // namespace ddprun
