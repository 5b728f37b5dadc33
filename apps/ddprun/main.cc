// ddprun: starts and supervises the workers of a job, on one node or many.
#include <cstdio>
#include <exception>

#include "launcher/run.h"

int main(int argc, char** argv) {
  try {
    return ddprun::launcher::Run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddprun: %s\n", error.what());
    return 1;
  }
}
