// DDPRUN_CHECK: our own bugs, not the user's mistakes. Prints the place and the broken
// condition, then aborts. Active in every build type.
#pragma once

#include <cstdio>
#include <cstdlib>

#define DDPRUN_CHECK(condition)                                                            \
  do {                                                                                     \
    if (!(condition)) [[unlikely]] {                                                       \
      std::fprintf(stderr, "%s:%d: bug in ddprun: %s does not hold\n", __FILE__, __LINE__, \
                   #condition);                                                            \
      std::abort();                                                                        \
    }                                                                                      \
  } while (false)
