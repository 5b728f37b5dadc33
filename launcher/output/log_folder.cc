#include "launcher/output/log_folder.h"

#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;

Error NotWritable(const std::string& path, int error_number) {
  return Error{.title = "LOG FOLDER NOT WRITABLE",
               .where = path,
               .what = "Making this folder failed: " + ErrnoText(error_number) + ".",
               .hint = "Give --log_dir a folder that can be written to, or leave it out.",
               .page = "log-folder"};
}

std::string RandomName() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz012345";
  std::array<unsigned char, 8> bytes{};
  [[maybe_unused]] const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
  std::string name;
  for (const unsigned char byte : bytes) name += kLetters[byte % kLetters.size()];
  return name;
}

// Returns 0 or errno.
int MakeFolder(const std::string& path, mode_t mode) {
  return ::mkdir(path.c_str(), mode) == 0 ? 0 : errno;
}

}  // namespace

Result<LogFolder> LogFolder::Create(const std::string& log_dir, const std::string& run_id) {
  if (log_dir == "/dev/null") return LogFolder("");
  std::error_code error;
  const std::string base = fs::absolute(log_dir, error);
  fs::create_directories(base, error);
  if (error) return NotWritable(base, error.value());
  std::string name = run_id;
  std::replace(name.begin(), name.end(), '/', '_');
  while (true) {
    const std::string path = base + "/" + name + "_" + RandomName();
    const int error_number = MakeFolder(path, 0700);  // like Python's mkdtemp
    if (error_number == 0) return LogFolder(path);
    if (error_number != EEXIST) return NotWritable(path, error_number);
  }
}

Result<std::string> LogFolder::MakeAttempt(int number, int local_world_size) const {
  if (path_.empty()) return std::string();
  const std::string first = path_ + "/attempt_" + std::to_string(number);
  std::string folder = first;
  for (int again = 2;; ++again) {
    const int error_number = MakeFolder(folder, 0777);
    if (error_number == 0) break;
    if (error_number != EEXIST) return NotWritable(folder, error_number);
    folder = first + "." + std::to_string(again);
  }
  for (int rank = 0; rank < local_world_size; ++rank) {
    const std::string of_rank = folder + "/" + std::to_string(rank);
    if (const int error_number = MakeFolder(of_rank, 0777))
      return NotWritable(of_rank, error_number);
  }
  return folder;
}

}  // namespace ddprun::launcher
