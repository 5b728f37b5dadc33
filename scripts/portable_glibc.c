// Symbols of newer glibcs, for scripts/portable_wheel.sh: the linker takes them where an old glibc
// has none.
#include <errno.h>
#include <pthread.h>
#include <time.h>

// Since glibc 2.32: whether the process has one thread. libstdc++ then counts references without
// atomic operations.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

// Since glibc 2.30. A condition with the usual attributes waits by CLOCK_REALTIME.
__attribute__((visibility("hidden"))) int pthread_cond_clockwait(pthread_cond_t* condition,
                                                                 pthread_mutex_t* mutex,
                                                                 clockid_t clock,
                                                                 const struct timespec* deadline) {
  const long second = 1000000000;
  struct timespec now;
  struct timespec real;
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &real) != 0) return EINVAL;
  real.tv_sec += deadline->tv_sec - now.tv_sec;
  real.tv_nsec += deadline->tv_nsec - now.tv_nsec;
  if (real.tv_nsec < 0) {
    real.tv_nsec += second;
    --real.tv_sec;
  } else if (real.tv_nsec >= second) {
    real.tv_nsec -= second;
    ++real.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &real);
}
