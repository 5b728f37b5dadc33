#include <fnmatch.h>

#include <filesystem>
#include <set>
#include <system_error>

#include "base/text.h"
#include "trainer/data/data_files.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;

bool HasWildcard(std::string_view text) {
  return text.find_first_of("*?[") != text.npos;
}

std::vector<std::string> Components(std::string_view pattern) {
  std::vector<std::string> components;
  while (!pattern.empty()) {
    const size_t slash = std::min(pattern.find('/'), pattern.size());
    if (slash > 0) components.emplace_back(pattern.substr(0, slash));
    pattern.remove_prefix(std::min(slash + 1, pattern.size()));
  }
  return components;
}

// Returns the entries of a folder; none if it cannot be read, as in a shell.
std::vector<fs::directory_entry> Entries(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator it(folder.empty() ? "." : folder, ignored), end;
       !ignored && it != end; it.increment(ignored)) {
    entries.push_back(*it);
  }
  return entries;
}

class Expansion {
 public:
  explicit Expansion(std::vector<std::string> components) : components_(std::move(components)) {}

  // Matches components [at, end) below `folder`.
  void Match(const fs::path& folder, size_t at) {
    const std::string& component = components_[at];
    if (component == "**") {
      MatchAnyDepth(folder, at);
      return;
    }
    if (!HasWildcard(component)) {
      MatchName(folder / component, at);
      return;
    }
    for (const fs::directory_entry& entry : Entries(folder)) {
      const std::string name = entry.path().filename();
      if (::fnmatch(component.c_str(), name.c_str(), FNM_PERIOD) == 0) {
        MatchName(folder / name, at);
      }
    }
  }

  std::vector<std::string> files() const { return {files_.begin(), files_.end()}; }

 private:
  void MatchName(const fs::path& path, size_t at) {
    std::error_code ignored;
    if (at + 1 < components_.size()) {
      if (fs::is_directory(path, ignored)) Match(path, at + 1);
    } else if (fs::is_regular_file(path, ignored)) {
      files_.insert(path.string());
    }
  }

  void MatchAnyDepth(const fs::path& folder, size_t at) {
    const bool last = at + 1 == components_.size();
    if (!last) Match(folder, at + 1);
    for (const fs::directory_entry& entry : Entries(folder)) {
      std::error_code ignored;
      const std::string name = entry.path().filename();
      if (name.starts_with('.')) continue;
      if (entry.is_directory(ignored) && !entry.is_symlink(ignored)) {
        MatchAnyDepth(folder / name, at);
      } else if (last) {
        MatchName(folder / name, at);
      }
    }
  }

  const std::vector<std::string> components_;
  std::set<std::string> files_;
};

Error MissingFile(std::string what, std::string hint) {
  return Error{.code = Code::kUsage,
               .title = "NO DATA FILE",
               .what = std::move(what),
               .hint = std::move(hint),
               .page = "no-data-file"};
}

// Returns the deepest folder of the pattern before the first wildcard.
fs::path FixedFolder(std::string_view pattern) {
  const size_t wildcard = pattern.find_first_of("*?[");
  const fs::path folder = fs::path(pattern.substr(0, wildcard)).parent_path();
  return folder.empty() ? "." : folder;
}

Error NothingMatches(std::string_view pattern) {
  const fs::path folder = FixedFolder(pattern);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    return MissingFile("No file matches \"" + std::string(pattern) + "\": there is no folder " +
                           fs::absolute(folder).string() + ".",
                       "Create it, or correct the path in the config.");
  }
  const auto entries = std::ssize(Entries(folder));
  return MissingFile("No file matches \"" + std::string(pattern) +
                         "\". ddprun searched the folder " +
                         fs::absolute(folder).lexically_normal().string() + ", which has " +
                         CountText(entries, "entry", "entries") + ".",
                     "* does not match across folders; ** does.");
}

Error NoSuchFile(const fs::path& path) {
  const fs::path folder = path.parent_path().empty() ? "." : path.parent_path();
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return NothingMatches(path.string());
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : Entries(folder)) {
    names.push_back(entry.path().filename());
  }
  const auto nearest = FindNearestFile(path.filename().string(), names);
  return MissingFile("There is no file \"" + path.string() + "\".",
                     nearest ? "Did you mean \"" + (path.parent_path() / *nearest).string() + "\"?"
                             : "Correct the path.");
}

Error IsFolder(const std::string& path) {
  return Error{.code = Code::kUsage,
               .title = "DATA FILE IS A FOLDER",
               .what = "\"" + path + "\" is a folder; a file was expected.",
               .hint = "Write \"" + (fs::path(path) / "*").string() +
                       "\" for the files in it, or \"" + (fs::path(path) / "**").string() +
                       "\" for those below it too.",
               .page = "data-is-folder"};
}

}  // namespace

Result<std::vector<std::string>> ExpandGlob(std::string_view pattern) {
  const std::string text(pattern);
  std::error_code error;
  const fs::file_status status = fs::status(text, error);
  if (status.type() == fs::file_type::directory) return IsFolder(text);
  if (fs::exists(status)) return std::vector<std::string>{text};
  // The path exists but cannot be reached, because of a loop of links or a folder without access.
  if (error && status.type() != fs::file_type::not_found) {
    Error unreachable = SystemError("\"" + text + "\" cannot be read", error.value());
    unreachable.title = "DATA FILE CANNOT BE READ";
    unreachable.page = "unreadable-data-file";
    return unreachable;
  }
  if (!HasWildcard(pattern)) return NoSuchFile(text);
  Expansion expansion(Components(pattern));
  expansion.Match(pattern.starts_with('/') ? "/" : "", 0);
  std::vector<std::string> files = expansion.files();
  if (files.empty()) return NothingMatches(pattern);
  return files;
}

}  // namespace ddprun::trainer
