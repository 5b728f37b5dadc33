// Arrays that may be larger than the memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun {

// Bytes in memory, or from `kMostInMemory` on in a mapped file without a name, in $TMPDIR or /tmp:
// the system writes them to disk and drops them from memory when it needs room. It frees the file
// after the last process that has them, even if the processes are killed. If the file cannot be
// made or has no room, the bytes are in memory up to half of what this process may have.
//
// A process that is forked shares the bytes of a file with its parent. Not thread-safe.
class LargeBytes {
 public:
  static constexpr size_t kMostInMemory = size_t{256} << 20;

  LargeBytes() = default;
  explicit LargeBytes(size_t most_in_memory) : most_in_memory_(most_in_memory) {}
  LargeBytes(LargeBytes&& other) noexcept;
  LargeBytes& operator=(LargeBytes&& other) noexcept;
  ~LargeBytes();

  // Makes room for at least `bytes` and keeps what is there; new bytes have any value. The address
  // may change. Throws Failure if there is room neither on the disk nor in memory.
  void Reserve(size_t bytes);
  // The same, with more room, so that many calls copy little.
  void Grow(size_t bytes);
  std::byte* data() const { return data_; }
  size_t capacity() const { return capacity_; }
  bool is_file() const { return file_.valid(); }

 private:
  Status ReserveInFile(size_t bytes);
  void ReserveInMemory(size_t bytes);

  size_t most_in_memory_ = kMostInMemory;
  std::byte* data_ = nullptr;
  size_t capacity_ = 0;
  UniqueFd file_;
};

// A vector of such bytes. It throws as LargeBytes::Reserve() does.
template <typename T>
class LargeArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  LargeArray() = default;
  explicit LargeArray(size_t most_in_memory) : bytes_(most_in_memory) {}
  LargeArray(LargeArray&& other) noexcept
      : bytes_(std::move(other.bytes_)), size_(std::exchange(other.size_, 0)) {}
  LargeArray& operator=(LargeArray&& other) noexcept {
    bytes_ = std::move(other.bytes_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return reinterpret_cast<T*>(bytes_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data()); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }

  // New elements have any value.
  void Resize(size_t size) {
    bytes_.Reserve(size * sizeof(T));
    size_ = size;
  }
  // `from` must not be of this array.
  void Append(const T* from, size_t count) {
    const size_t old = size_;
    if ((old + count) * sizeof(T) > bytes_.capacity()) bytes_.Grow((old + count) * sizeof(T));
    size_ = old + count;
    if (count > 0) std::memcpy(data() + old, from, count * sizeof(T));
  }
  void Add(const T& value) {
    const T copy = value;
    Append(&copy, 1);
  }
  void RemoveLast() { --size_; }

 private:
  LargeBytes bytes_;
  size_t size_ = 0;
};

}  // namespace ddprun
