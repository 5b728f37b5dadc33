#include "base/flight_notes.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <array>
#include <bit>
#include <iterator>

#include "base/flight_page.h"

namespace ddprun {

namespace {

// Calls `write` with the worker's page, if there is one.
template <typename Write>
void OnPage(const Environment& env, int local_rank, const Write& write) {
  const Result<int64_t> fd = env.GetInt(kFlightRecorderVariable, -1, 0, 1 << 20);
  if (!fd || *fd < 0) return;
  const UniqueFd file(::fcntl(static_cast<int>(*fd), F_DUPFD_CLOEXEC, 0));
  const Result<int64_t> page = env.GetInt(kFlightPageVariable, local_rank, 0, INT32_MAX);
  if (!page) return;
  const Result<void*> address =
      MapFlightPages(file, static_cast<int>(*page), 1, PROT_READ | PROT_WRITE);
  if (!address) return;
  write(*static_cast<FlightPage*>(*address));
  ::munmap(*address, kFlightPageBytes);
}

}  // namespace

void NoteGpu(const Environment& env, int local_rank, std::string_view bus_id) {
  OnPage(env, local_rank, [&](FlightPage& page) { PutText(page.gpu, bus_id); });
}

void NoteResumeCommand(const Environment& env, int local_rank, std::string_view command) {
  if (command.size() > kRecordedCommandBytes) command = "";
  OnPage(env, local_rank, [&](FlightPage& page) {
    const FlightWriting writing(page.resume_command.version);
    PutText(page.resume_command.text, command);
  });
}

void NoteStart(const Environment& env, int local_rank, int world_size, int restarts) {
  OnPage(env, local_rank, [&](FlightPage& page) {
    Put(page.world_size, static_cast<uint64_t>(world_size));
    Put(page.restarts, static_cast<uint64_t>(restarts));
  });
}

void NoteRun(const Environment& env, int local_rank, const RunProgress& run) {
  using Words = std::array<uint64_t, std::size(FlightRun().numbers)>;
  const auto words = std::bit_cast<Words>(run);
  OnPage(env, local_rank, [&](FlightPage& page) {
    const FlightWriting writing(page.run.version);
    for (size_t i = 0; i < words.size(); ++i) Put(page.run.numbers[i], words[i]);
  });
}

}  // namespace ddprun
