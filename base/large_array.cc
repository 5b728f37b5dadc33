#include "base/large_array.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/atomic_file.h"
#include "base/cgroup_memory.h"
#include "base/failure.h"
#include "base/unnamed_file.h"

namespace ddprun {

namespace {

constexpr size_t kMostGrowth = size_t{64} << 20;

size_t HalfOfMemory() {
  const auto limit = ReadMemoryLimit();
  return limit ? static_cast<size_t>(limit->bytes) / 2 : 0;
}

Failure NoRoom(Error error) {
  error.what += "\nData that may not fit into the memory is kept there.";
  error.hint = "Make room, or name another folder for temporary files: TMPDIR=/scratch";
  return Failure(std::move(error));
}

// Allocates the blocks, too: a write to a mapped file on a full disk would be a SIGBUS.
Status Lengthen(const UniqueFd& file, size_t from, size_t to) {
  int error = EINTR;
  while (error == EINTR) {
    error = ::posix_fallocate(file.get(), static_cast<off_t>(from), static_cast<off_t>(to - from));
  }
  if (error != 0) return CannotWrite(TemporaryFolder(), error);
  return {};
}

}  // namespace

LargeBytes::LargeBytes(LargeBytes&& other) noexcept
    : most_in_memory_(other.most_in_memory_),
      data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      file_(std::move(other.file_)) {}

LargeBytes& LargeBytes::operator=(LargeBytes&& other) noexcept {
  std::swap(most_in_memory_, other.most_in_memory_);
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  std::swap(file_, other.file_);
  return *this;
}

LargeBytes::~LargeBytes() {
  if (is_file()) {
    ::munmap(data_, capacity_);
  } else {
    std::free(data_);
  }
}

void LargeBytes::Reserve(size_t bytes) {
  if (bytes <= capacity_) return;
  if (bytes <= most_in_memory_) return ReserveInMemory(bytes);
  const Status in_file = ReserveInFile(bytes);
  if (in_file.ok()) return;
  if (bytes > HalfOfMemory()) throw NoRoom(in_file.error());
  most_in_memory_ = HalfOfMemory();
  ReserveInMemory(bytes);
}

void LargeBytes::ReserveInMemory(size_t bytes) {
  void* const data = std::realloc(is_file() ? nullptr : data_, bytes);
  if (data == nullptr) throw std::bad_alloc();
  if (is_file()) {
    std::memcpy(data, data_, capacity_);
    ::munmap(data_, capacity_);
    file_.reset();
  }
  data_ = static_cast<std::byte*>(data);
  capacity_ = bytes;
}

void LargeBytes::Grow(size_t bytes) {
  Reserve(std::max(bytes, capacity_ + std::min(capacity_, kMostGrowth)));
}

Status LargeBytes::ReserveInFile(size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  bytes = (bytes + page - 1) / page * page;
  void* data = MAP_FAILED;
  if (is_file()) {
    DDPRUN_TRY(Lengthen(file_, capacity_, bytes));
    data = ::mremap(data_, capacity_, bytes, MREMAP_MAYMOVE);
    if (data == MAP_FAILED) return CannotWrite(TemporaryFolder(), errno);
  } else {
    Result<UniqueFd> file = OpenUnnamedFile(TemporaryFolder());
    if (!file) return file.error();
    DDPRUN_TRY(Lengthen(*file, 0, bytes));
    data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0);
    if (data == MAP_FAILED) return CannotWrite(TemporaryFolder(), errno);
    if (capacity_ > 0) std::memcpy(data, data_, capacity_);
    std::free(data_);
    file_ = std::move(*file);
  }
  data_ = static_cast<std::byte*>(data);
  capacity_ = bytes;
  return {};
}

}  // namespace ddprun
