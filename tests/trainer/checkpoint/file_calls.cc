#include "tests/trainer/checkpoint/file_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace ddprun::trainer {
namespace {

std::string* watched_folder = nullptr;
std::atomic<FileWatcher*> file_watcher = nullptr;

std::string PathOf(int fd) {
  std::array<char, 4096> path;
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return length < 0 ? "" : std::string(path.data(), static_cast<size_t>(length));
}

std::string PathAt(int folder, const char* path) {
  return folder == AT_FDCWD || path[0] == '/' ? path : PathOf(folder) + "/" + path;
}

// Tells the watcher, and makes the call unless it is to fail.
template <typename System>
long Watched(FileCall call, const System& system) {
  FileWatcher* const watcher = file_watcher;
  if (watcher == nullptr || !call.path.starts_with(*watched_folder)) return system(call);
  const int error_number = watcher->Before(call);
  if (error_number != 0) {
    errno = error_number;
    return -1;
  }
  const long result = system(call);
  if (result >= 0) watcher->After(call);
  return result;
}

std::string PathIfWatched(int fd) {
  return file_watcher == nullptr ? "" : PathOf(fd);
}

}  // namespace

WatchFiles::WatchFiles(const std::string& folder, FileWatcher& watcher) {
  watched_folder = new std::string(folder);
  file_watcher = &watcher;
}

WatchFiles::~WatchFiles() {
  file_watcher = nullptr;
  delete watched_folder;
}

}  // namespace ddprun::trainer

using ddprun::trainer::FileCall;
using ddprun::trainer::PathAt;
using ddprun::trainer::PathIfWatched;
using ddprun::trainer::Watched;
using Kind = FileCall::Kind;

extern "C" {

int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return static_cast<int>(
      Watched({Kind::kOpen, PathAt(folder, path), {}, {}, flags},
              [&](const FileCall&) { return ::syscall(SYS_openat, folder, path, flags, mode); }));
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return openat(AT_FDCWD, path, flags, mode);
}

ssize_t read(int fd, void* bytes, size_t size) {
  return Watched(
      {Kind::kRead, PathIfWatched(fd), {}, {static_cast<char*>(bytes), size}},
      [&](const FileCall& call) { return ::syscall(SYS_read, fd, bytes, call.bytes.size()); });
}

ssize_t pread(int fd, void* bytes, size_t size, off_t from) {
  return Watched({Kind::kRead, PathIfWatched(fd), {}, {static_cast<char*>(bytes), size}},
                 [&](const FileCall& call) {
                   return ::syscall(SYS_pread64, fd, bytes, call.bytes.size(), from);
                 });
}

ssize_t write(int fd, const void* bytes, size_t size) {
  return Watched({Kind::kWrite, PathIfWatched(fd), {}, {static_cast<const char*>(bytes), size}},
                 [&](const FileCall& call) {
                   return ::syscall(SYS_write, fd, call.bytes.data(), call.bytes.size());
                 });
}

int fsync(int fd) {
  // No test cuts the power; a disk that really syncs takes most of the time.
  return static_cast<int>(
      Watched({Kind::kSync, PathIfWatched(fd)}, [](const FileCall&) { return 0L; }));
}

int ftruncate(int fd, off_t size) noexcept {
  return static_cast<int>(Watched({Kind::kTruncate, PathIfWatched(fd)}, [&](const FileCall&) {
    return ::syscall(SYS_ftruncate, fd, size);
  }));
}

int flock(int fd, int operation) noexcept {
  return static_cast<int>(Watched({Kind::kLock, PathIfWatched(fd)}, [&](const FileCall&) {
    return ::syscall(SYS_flock, fd, operation);
  }));
}

int stat(const char* path, struct stat* found) noexcept {
  return static_cast<int>(Watched({Kind::kLook, path}, [&](const FileCall&) {
    return ::syscall(SYS_newfstatat, AT_FDCWD, path, found, 0);
  }));
}

int lstat(const char* path, struct stat* found) noexcept {
  return static_cast<int>(Watched({Kind::kLook, path}, [&](const FileCall&) {
    return ::syscall(SYS_newfstatat, AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW);
  }));
}

int fstat(int fd, struct stat* found) noexcept {
  return static_cast<int>(Watched({Kind::kLook, PathIfWatched(fd)}, [&](const FileCall&) {
    return ::syscall(SYS_newfstatat, fd, "", found, AT_EMPTY_PATH);
  }));
}

dirent* readdir(DIR* folder) {
  static const auto system = reinterpret_cast<dirent* (*)(DIR*)>(dlsym(RTLD_NEXT, "readdir"));
  dirent* entry = nullptr;
  Watched({Kind::kList, PathIfWatched(dirfd(folder))}, [&](const FileCall&) {
    entry = system(folder);
    return 0L;
  });
  return entry;
}

#ifndef __SANITIZE_THREAD__  // its runtime calls mmap() before it is ready for code of a program
void* mmap(void* wanted, size_t size, int access, int flags, int fd, off_t offset) noexcept {
  return reinterpret_cast<void*>(
      Watched({Kind::kMap, fd < 0 ? "" : PathIfWatched(fd)}, [&](const FileCall&) {
        return ::syscall(SYS_mmap, wanted, size, access, flags, fd, offset);
      }));
}
#endif

int mkdir(const char* path, mode_t mode) noexcept {
  return static_cast<int>(Watched({Kind::kMakeFolder, path}, [&](const FileCall&) {
    return ::syscall(SYS_mkdir, path, mode);
  }));
}

int renameat2(
    int from_folder, const char* from, int to_folder, const char* to, unsigned int flags) noexcept {
  const Kind kind = flags != 0 ? Kind::kExchange : Kind::kRename;
  return static_cast<int>(
      Watched({kind, PathAt(from_folder, from), PathAt(to_folder, to)}, [&](const FileCall&) {
        return ::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
      }));
}

int symlink(const char* target, const char* path) noexcept {
  return static_cast<int>(Watched(
      {Kind::kLink, path}, [&](const FileCall&) { return ::syscall(SYS_symlink, target, path); }));
}

int rename(const char* from, const char* to) noexcept {
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  return static_cast<int>(Watched({Kind::kRemove, PathAt(folder, path)}, [&](const FileCall&) {
    return ::syscall(SYS_unlinkat, folder, path, flags);
  }));
}

int unlink(const char* path) noexcept {
  return unlinkat(AT_FDCWD, path, 0);
}

int remove(const char* path) noexcept {
  const int result = unlinkat(AT_FDCWD, path, 0);
  return result != 0 && errno == EISDIR ? unlinkat(AT_FDCWD, path, AT_REMOVEDIR) : result;
}

}  // extern "C"
