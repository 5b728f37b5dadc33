// Preloaded into a program, the clock of the day jumps by years with every look at it, to and fro.
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include <atomic>

namespace {

time_t Jump() {
  constexpr time_t kYear = 31'536'000;
  static std::atomic<int> looks = 0;
  const int look = looks++;
  return (look % 2 == 0 ? 1 : -1) * (look % 20) * kYear;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* found) noexcept {
  static const auto real =
      reinterpret_cast<int (*)(clockid_t, timespec*)>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int status = real(clock, found);
  if (status == 0 && clock == CLOCK_REALTIME) found->tv_sec += Jump();
  return status;
}

int gettimeofday(timeval* found, void* /*zone*/) noexcept {
  timespec time{};
  const int status = clock_gettime(CLOCK_REALTIME, &time);
  *found = {.tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / 1000};
  return status;
}

time_t time(time_t* found) noexcept {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  if (found != nullptr) *found = time.tv_sec;
  return time.tv_sec;
}

}  // extern "C"
