#include "base/owned_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "base/unique_fd.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The list in a folder that AtomicFolder made. It is hidden, because users look for a model there.
constexpr const char* kListName = ".ddprun-files.json";
// The mark in a folder that AtomicFolder is still writing.
constexpr const char* kUnfinished = ".ddprun-unfinished";

Result<std::vector<std::string>> EntriesOf(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().lexically_relative(folder).string());
  }
  if (error) return CannotWrite(folder, error.value());
  // Descending, so that a folder comes after its entries. The hidden list comes last, because
  // IsListed() needs it for the others.
  std::ranges::sort(names, std::greater<>());
  return names;
}

// Returns size and modification time, which show changes; null if there is nothing at `path`.
json FactsOf(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return nullptr;
  if (S_ISDIR(status.st_mode)) return "folder";
  return json{{"bytes", status.st_size},
              {"modified_ns", status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec}};
}

// Returns the first entry that is not ddprun's own; "" means none.
Result<std::string> FirstForeign(const std::string& folder, IsOwnEntry is_own) {
  DDPRUN_ASSIGN(const std::vector<std::string> names, EntriesOf(folder));
  for (const std::string& name : names) {
    if (!is_own(folder, name)) return name;
  }
  return std::string();
}

Status SetAside(const std::string& path, const std::string& folder, std::string& aside) {
  for (int number = 1;; ++number) {
    aside = folder + ".aside-" + std::to_string(number);
    std::error_code error;
    if (fs::exists(fs::symlink_status(aside, error))) continue;
    if (::rename(path.c_str(), aside.c_str()) != 0) return CannotWrite(aside, errno);
    return {};
  }
}

Status SyncParent(const std::string& path) {
  return SyncFolder(fs::path(path).parent_path().string());
}

Status SyncFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) return CannotWrite(path, errno);
  return {};
}

// Replaces `folder`, which has files, by `written`. Returns the name that the old folder now has.
Result<std::string> Exchange(const std::string& written, const std::string& folder) {
  std::string old = written;
  if (::renameat2(AT_FDCWD, written.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) != 0) {
    // File systems over the network cannot exchange two names.
    old = written + ".old";
    if (::rename(folder.c_str(), old.c_str()) != 0) return CannotWrite(folder, errno);
    if (::rename(written.c_str(), folder.c_str()) != 0) {
      const int error_number = errno;
      (void)::rename(old.c_str(), folder.c_str());
      return CannotWrite(folder, error_number);
    }
  }
  return old;
}

// Locks the folder as long as the descriptor is open. Returns an invalid one if another process has
// the lock or the file system has no locks. `wait` is LOCK_NB, or 0 to wait.
UniqueFd Lock(const std::string& folder, int wait) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd.valid() && ::flock(fd.get(), LOCK_EX | wait) != 0) fd.reset();
  return fd;
}

// Returns whether AtomicFolder::Create() makes folders of this name for `folder`.
bool IsNameInTheMaking(std::string_view name, const std::string& folder) {
  const std::string prefix = fs::path(folder).filename().string() + ".";
  constexpr std::string_view kEnd = ".tmp";
  if (!name.starts_with(prefix) || !name.ends_with(kEnd)) return false;
  name.remove_prefix(prefix.size());
  return name.size() > kEnd.size() &&
         name.find_first_not_of("0123456789-") == name.size() - kEnd.size();
}

// Removes the folders of killed processes. A living process holds the lock of its folder.
void RemoveLeft(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> left;
  fs::directory_iterator entry(fs::path(folder).parent_path(), error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    if (IsNameInTheMaking(path.filename().string(), folder)) left.push_back(path.string());
  }
  for (const std::string& path : left) {
    const UniqueFd lock = Lock(path, LOCK_NB);
    if (!lock.valid()) continue;
    if (fs::exists(path + "/" + kUnfinished, error)) {
      RemoveNewFolder(path);
    } else if (fs::exists(path + "/" + kListName, error)) {
      // The finished folder, or the old one after an exchange.
      (void)RemoveOwnFolder(path, IsListed);
    }
  }
}

}  // namespace

bool IsListed(const std::string& folder, const std::string& name) {
  if (name == kListName) return true;
  const std::optional<std::string> text = ReadIfReadable(folder + "/" + kListName);
  const json list = json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false);
  return list.is_object() && list.contains(name) && list[name] == FactsOf(folder + "/" + name);
}

Status CheckOnlyOwnEntries(const std::string& folder, IsOwnEntry is_own) {
  struct stat status = {};
  if (::stat(folder.c_str(), &status) != 0) {
    return errno == ENOENT ? Status() : CannotWrite(folder, errno);
  }
  if (!S_ISDIR(status.st_mode)) return CannotWrite(folder, ENOTDIR);
  DDPRUN_ASSIGN(const std::string foreign, FirstForeign(folder, is_own));
  if (foreign.empty()) return {};
  return Error{.code = Code::kUsage,
               .title = "NOT REPLACED",
               .where = folder,
               .what = "\"" + folder + "\" has a file that ddprun did not write, or that was " +
                       "changed since: \"" + foreign + "\".\nNothing was changed.",
               .hint = "Name a folder that is not there yet, or an empty one.",
               .page = "not-replaced"};
}

Status RemoveOwnFolder(const std::string& folder, IsOwnEntry is_own) {
  DDPRUN_TRY(CheckOnlyOwnEntries(folder, is_own));
  std::vector<std::string> names;
  std::error_code ignored;
  // Only the link itself is removed: the folder that it points to is in use under its own name.
  if (!fs::is_symlink(folder, ignored)) {
    DDPRUN_ASSIGN(names, EntriesOf(folder));
  }
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    if (std::remove(path.c_str()) != 0 && errno != ENOENT) return CannotWrite(path, errno);
  }
  if (std::remove(folder.c_str()) != 0 && errno != ENOENT) return CannotWrite(folder, errno);
  return {};
}

void RemoveNewFolder(const std::string& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

Result<std::string> PublishFolder(const std::string& written,
                                  const std::string& folder,
                                  IsOwnEntry is_own) {
  std::error_code error;
  fs::directory_iterator entry(written, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    DDPRUN_TRY(SyncFile(entry->path().string()));
  }
  if (error) return CannotWrite(written, error.value());
  struct stat status = {};
  // The new folder gets the old one's permissions.
  if (::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    (void)::chmod(written.c_str(), status.st_mode & 07777);
  }
  DDPRUN_TRY(SyncFolder(written));
  std::string aside;
  if (::rename(written.c_str(), folder.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) return CannotWrite(folder, errno);
    DDPRUN_ASSIGN(const std::string old, Exchange(written, folder));
    // Synced before the old folder is removed, because a crash could still undo the exchange.
    DDPRUN_TRY(SyncParent(folder));
    if (CheckOnlyOwnEntries(old, is_own).ok()) {
      (void)RemoveOwnFolder(old, is_own);
    } else {
      DDPRUN_TRY(SetAside(old, folder, aside));
    }
  }
  DDPRUN_TRY(SyncParent(folder));
  return aside;
}

AtomicFolder::AtomicFolder(AtomicFolder&& other) noexcept
    : folder_(std::move(other.folder_)),
      path_(std::exchange(other.path_, {})),
      in_use_(std::move(other.in_use_)),
      made_parents_(std::exchange(other.made_parents_, {})) {}

AtomicFolder::~AtomicFolder() {
  if (!path_.empty()) RemoveNewFolder(path_);
  // rmdir() fails for parents that are not empty, so these stay.
  while (!made_parents_.empty()) {
    ::rmdir(made_parents_.back().c_str());
    made_parents_.pop_back();
  }
}

Result<AtomicFolder> AtomicFolder::Create(const std::string& folder) {
  std::error_code error;
  AtomicFolder made;
  // Follows links, and removes a "/" at the end.
  const fs::path absolute = fs::absolute(folder, error);
  if (error) return CannotWrite(folder, error.value());
  const fs::path target = fs::weakly_canonical(absolute, error);
  if (error) return CannotWrite(folder, error.value());
  made.folder_ = (target.has_filename() ? target : target.parent_path()).string();
  std::vector<std::string> missing;
  for (fs::path parent = fs::path(made.folder_).parent_path(); !fs::exists(parent, error);
       parent = parent.parent_path()) {
    if (error) return CannotWrite(folder, error.value());
    missing.push_back(parent.string());
  }
  while (!missing.empty()) {
    if (::mkdir(missing.back().c_str(), 0777) == 0) {
      made.made_parents_.push_back(missing.back());
    } else if (errno != EEXIST) {
      return CannotWrite(folder, errno);
    }
    missing.pop_back();
  }
  RemoveLeft(made.folder_);
  // A process on another host may have this process's number.
  const std::string first = made.folder_ + "." + std::to_string(::getpid());
  for (int number = 1; made.path_.empty(); ++number) {
    const std::string path = first + (number == 1 ? "" : "-" + std::to_string(number)) + ".tmp";
    if (::mkdir(path.c_str(), 0777) == 0) {
      made.path_ = path;
    } else if (errno != EEXIST) {
      return CannotWrite(folder, errno);
    }
  }
  // The lock comes first, because RemoveLeft() of another process removes a marked folder without.
  made.in_use_ = Lock(made.path_, /*wait=*/0);
  if (made.in_use_.valid()) std::ofstream(made.path_ + "/" + kUnfinished);
  return made;
}

Result<std::string> AtomicFolder::Finish() {
  const std::string mark = path_ + "/" + kUnfinished;
  if (std::remove(mark.c_str()) != 0 && errno != ENOENT) return CannotWrite(mark, errno);
  DDPRUN_ASSIGN(const std::vector<std::string> names, EntriesOf(path_));
  json list;
  for (const std::string& name : names) {
    const json facts = FactsOf(path_ + "/" + name);
    if (facts.is_null()) return CannotWrite(path_ + "/" + name, errno);
    list[name] = facts;
  }
  // File names may have any bytes, but JSON only UTF-8.
  DDPRUN_TRY(WriteFileAtomically(path_ + "/" + kListName,
                                 list.dump(2, ' ', false, json::error_handler_t::replace) + "\n",
                                 Durability::kUnsynced));
  const std::string written = std::exchange(path_, {});
  Result<std::string> aside = PublishFolder(written, folder_, IsListed);
  if (aside) {
    made_parents_.clear();
  } else {
    // After a failed exchange this may be the old folder, so only own files are removed.
    (void)RemoveOwnFolder(written, IsListed);
  }
  return aside;
}

}  // namespace ddprun
