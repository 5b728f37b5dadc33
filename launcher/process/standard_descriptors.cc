#include "launcher/process/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace ddprun::launcher {

void OpenMissingStandardDescriptors() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  ::close(fd);
}

}  // namespace ddprun::launcher
