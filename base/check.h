// DDPRUN_CHECK is for ddprun's own bugs, not for users' mistakes. If the condition is false, it
// prints the place and the condition, then aborts. It is active in every build type.
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
