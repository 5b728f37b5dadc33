// What the readers of data files share: finding and reading files, and refusing them.
// LibTorch-free.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/failure.h"
#include "base/result.h"

namespace ddprun::trainer {

// The files of all patterns (ExpandGlob), in the patterns' order, so that every rank and every run
// sees the same data; one that is matched twice, also under another spelling, comes once. Throws
// Failure.
std::vector<std::string> ExpandFiles(const std::vector<std::string>& patterns);

// All bytes of a regular file, decompressed if gzip compressed it (FileStream), followed by
// `padding` zero bytes that are not in its size. Throws Failure: it cannot be read, or would become
// larger than `most_decompressed` bytes, by default half of the machine's memory.
struct FileBytes {
  std::string storage;
  size_t size = 0;
  std::string_view text() const { return {storage.data(), size}; }
};
FileBytes ReadDataFile(const std::string& path,
                       size_t padding = 0,
                       std::optional<size_t> most_decompressed = {});

// For files that are mapped. Throws Failure where the name and the first bytes are gzip's.
void RefuseCompressed(const std::string& path, std::span<const std::byte> bytes);

// For formats whose lines are text: UTF-8, or another encoding that has ASCII as it is. Throws
// Failure for UTF-16 and for files that are no text at all (a zero byte in the first line).
void RefuseOtherThanText(const std::string& path, std::string_view text);

// Bytes of a file as a message may have them: cut short, and without what moves a cursor.
std::string Shown(std::string_view text);

// ""a", "b", ... (30 in all)", each as Shown.
std::string Quoted(const std::vector<std::string>& names, size_t most = 12);

// "WRONG DATA FILE": the file was read, and `found` is not what its format asks for. `found` is a
// sentence that says what was found and what was expected.
Failure WrongDataFile(const std::string& path, const std::string& found, const std::string& hint);

// "UNKNOWN LABEL": the row at `where` has a label that is none of the classes.
Failure UnknownLabel(const std::string& where,
                     const std::string& label,
                     const std::vector<std::string>& classes);

// Copying out of mapped files that may shrink.

// memcpy from mapped memory; false where the file behind it has become shorter than what is asked
// for (the kernel then raises SIGBUS), or cannot be read any more. `to` may then hold a part of it.
// Any thread, as long as it does not block SIGBUS. The first call installs a handler; a SIGBUS from
// elsewhere goes to the handler that was there before.
bool CopyMapped(void* to, const std::byte* from, size_t bytes);

// Shell patterns to files, with ** for any number of folders (glob(3) has no **).

// The files that a pattern stands for, sorted by name, at least one. * ? [...] match within a
// name, ** any number of folders, none included; names that begin with a dot must be asked for
// with a dot, and ** does not follow links to folders. A path that exists is taken as it is,
// whatever characters it has. Folders that match are passed over, but a plain path to one is an
// error.
Result<std::vector<std::string>> ExpandGlob(std::string_view pattern);

}  // namespace ddprun::trainer
