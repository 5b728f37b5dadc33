// Watches the system calls by which this program changes and reads files, and makes them fail. The
// test's own open(), write() and so on replace the C library's, for all libraries and without a
// seam in the code.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::trainer {

struct FileCall {
  enum class Kind {
    kOpen,
    kWrite,
    kTruncate,
    kSync,
    kLock,
    kMakeFolder,
    kLink,
    kRename,
    kExchange,
    kRemove,
    // These change nothing.
    kRead,
    kMap,
    kLook,  // stat()
    kList   // readdir()
  };
  bool changes_nothing() const { return kind >= Kind::kRead; }

  Kind kind;
  std::string path;             // absolute
  std::string to = {};          // of a rename or an exchange
  std::string_view bytes = {};  // of a write; of a read its buffer
  int flags = 0;                // of open()
};

// Called by any thread.
class FileWatcher {
 public:
  virtual ~FileWatcher() = default;
  // Returns the errno with which the call fails; 0 means none. May make `bytes` shorter.
  virtual int Before(FileCall& call) = 0;
  // Called after the call was done.
  virtual void After(const FileCall& call) = 0;
};

// While it lives, `watcher` gets all calls for files below `folder`.
class WatchFiles {
 public:
  WatchFiles(const std::string& folder, FileWatcher& watcher);
  ~WatchFiles();
};

}  // namespace ddprun::trainer
