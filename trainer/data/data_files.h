// Finds, reads and refuses data files, for all readers. LibTorch-free.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/failure.h"
#include "base/large_array.h"
#include "base/result.h"

namespace ddprun::trainer {

// Returns the files of all patterns (ExpandGlob), in the patterns' order, so that every rank and
// every run sees the same data. A file that is matched twice, even under another spelling, comes
// once. Throws Failure.
std::vector<std::string> ExpandFiles(const std::vector<std::string>& patterns);

// All bytes of a regular file as FileStream reads it, followed by `padding` zero bytes that `size`
// does not count. ReadDataFile() throws Failure if it cannot read the file, or if the disk for
// temporary files is full.
struct FileBytes {
  LargeArray<char> storage;
  size_t size = 0;
  std::string_view text() const { return {storage.data(), size}; }
};
FileBytes ReadDataFile(const std::string& path,
                       size_t padding = 0,
                       const std::string& parquet_as = "");

// Refuses a file that cannot be mapped, because it is compressed. Throws Failure if the name and
// the first bytes are gzip's or Parquet's.
void RefuseUnmappable(const std::string& path, std::span<const std::byte> bytes);

// Refuses files whose lines are not text in UTF-8 or another superset of ASCII. Throws Failure for
// UTF-16, and for files with a zero byte in the first line.
void RefuseOtherThanText(const std::string& path, std::string_view text);

// Returns bytes of a file for a message: shortened, and without control characters.
std::string ShortenForMessage(std::string_view text);

// Returns ""a", "b", ... (30 in all)". Each name is passed through ShortenForMessage().
std::string QuoteNames(const std::vector<std::string>& names, size_t most = 12);

// Returns the error "WRONG DATA FILE": the file was read, but does not have its format. `found` is
// a sentence that says what was found and what was expected.
Failure WrongDataFile(const std::string& path, const std::string& found, const std::string& hint);

// Returns the error "UNKNOWN LABEL": the label of the row at `where` is not one of the classes.
Failure UnknownLabel(const std::string& where,
                     const std::string& label,
                     const std::vector<std::string>& classes);

// Copies from mapped files that may shrink.

// Copies mapped memory as memcpy() does. Returns false if the file has become shorter (the kernel
// then raises SIGBUS) or cannot be read; `to` may then hold a part of it.
//
// Any thread, as long as it does not block SIGBUS. The first call installs a handler, which passes
// a SIGBUS from elsewhere to the previous handler.
bool CopyMapped(void* to, const std::byte* from, size_t bytes);

// Expands shell patterns to files, with ** for any number of folders (glob(3) has no **).

// Returns the files that match the pattern, sorted by name, at least one. * ? [...] match within a
// name, ** matches any number of folders, including none. Only a pattern with a dot matches a name
// that begins with a dot, and ** does not follow links to folders.
//
// A path that exists is taken as it is, whatever characters it has. Folders that match are skipped,
// but a plain path to a folder is an error.
Result<std::vector<std::string>> ExpandGlob(std::string_view pattern);

}  // namespace ddprun::trainer
