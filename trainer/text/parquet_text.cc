#include "trainer/text/parquet_text.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <vector>

namespace ddprun::trainer {

namespace {

std::string Python() {
  const char* const named = ::getenv("PYTHON_EXEC");  // as for torchrun
  return named != nullptr && *named != '\0' ? named : "python3";
}

Error NoPython(const std::string& python, const std::string& reason) {
  return Error{.what = "it is a Parquet file, and " + python + " cannot be started: " + reason,
               .hint = "Install Python with pyarrow, or name such a Python by PYTHON_EXEC."};
}

// Returns the last line of a file in memory.
std::string LastLine(int fd) {
  std::string text(64 << 10, '\0');
  const ssize_t count = ::pread(fd, text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  text.resize(text.find_last_not_of('\n') + 1);
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

Result<std::unique_ptr<ByteDecoder>> ParquetText::Start(const std::string& path,
                                                        const std::string& form) {
  std::unique_ptr<ParquetText> process(new ParquetText);
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error{.what = ErrnoText(errno)};
  process->text_ = UniqueFd(ends[0]);
  const UniqueFd writes(ends[1]);
  process->errors_ = UniqueFd(::memfd_create("ddprun-parquet", MFD_CLOEXEC));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, writes.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, process->errors_.get(), STDERR_FILENO);
  std::vector<std::string> words = {Python(), "-c", std::string(kParquetProgram), path, form};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int error = ::posix_spawnp(&process->pid_, words[0].c_str(), &actions, nullptr,
                                   arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return std::unique_ptr<ByteDecoder>(std::move(process));
  process->pid_ = -1;
  return NoPython(words[0], ErrnoText(error));
}

ParquetText::~ParquetText() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  End();
}

void ParquetText::End() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  const std::string said = LastLine(errors_.get());
  ended_ = Error{.what = "it is a Parquet file, and " +
                         (said.empty() ? "the process of Python that reads it was killed" : said),
                 .hint =
                     "Reading Parquet needs Python with pyarrow (pip install pyarrow). "
                     "PYTHON_EXEC names another Python than python3."};
}

Result<size_t> ParquetText::Read(char* to, size_t size) {
  size_t done = 0;
  while (done < size && pid_ >= 0) {
    const ssize_t count = ::read(text_.get(), to + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error{.what = ErrnoText(errno)};
    if (count == 0) End();
    done += static_cast<size_t>(count);
  }
  DDPRUN_TRY(ended_);
  return done;
}

}  // namespace ddprun::trainer
