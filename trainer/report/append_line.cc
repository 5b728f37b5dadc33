#include "trainer/report/append_line.h"

#include <unistd.h>

#include "base/atomic_file.h"

namespace ddprun::trainer {

Status AppendLine(int fd, std::string_view line, const std::string& path) {
  const off_t end = ::lseek(fd, 0, SEEK_END);  // -1 if it is not a regular file
  Status status = WriteAll(fd, line, path);
  if (!status.ok() && end >= 0) (void)::ftruncate(fd, end);
  return status;
}

}  // namespace ddprun::trainer
