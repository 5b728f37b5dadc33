#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <sstream>
#include <vector>

#include "base/text.h"
#include "launcher/cli/target.h"

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;

bool IsFolder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool Exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

bool IsExecutable(const std::string& path) {
  return !IsFolder(path) && ::access(path.c_str(), X_OK) == 0;
}

Error NotExecutable(const std::string& path) {
  const bool folder = IsFolder(path);
  const std::string other = path.ends_with(".py") ? "leave --no_python out"
                                                  : "give a Python script a name that ends in .py";
  return Error{.code = Code::kNotExecutable,
               .title = "PROGRAM NOT EXECUTABLE",
               .where = path,
               .what = folder ? path + " is a folder; expected a program."
                              : path + " exists, but may not be executed.",
               .hint = folder ? "Name the file to run in it."
                              : "Make it executable (chmod +x " + path + "), or " + other + ".",
               .page = "program-not-executable"};
}

Error NotFound(const std::string& name, const std::string& searched, std::string hint) {
  if (hint.empty()) hint = "Check the name, or give the program's path.";
  return Error{.code = Code::kNotFound,
               .title = "PROGRAM NOT FOUND",
               .where = name,
               .what = "There is no program " + name + searched + ".",
               .hint = std::move(hint),
               .page = "program-not-found"};
}

std::vector<std::string> SearchPath(const Environment& env) {
  std::vector<std::string> folders;
  std::stringstream list(env.GetOr("PATH", "/usr/local/bin:/usr/bin:/bin"));
  std::string folder;
  // An empty entry means the current folder.
  while (std::getline(list, folder, ':')) folders.push_back(folder.empty() ? "." : folder);
  return folders;
}

void AppendNames(const std::string& folder, std::vector<std::string>& names) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename());
  }
}

}  // namespace

Result<std::string> FindProgram(const std::string& name, const Environment& env) {
  if (name.find('/') != std::string::npos) {
    if (IsExecutable(name)) return name;
    if (Exists(name)) return NotExecutable(name);
    return NotFound(name, "", SimilarFileHint(name));
  }
  const std::vector<std::string> folders = SearchPath(env);
  for (const std::string& folder : folders) {
    const std::string path = folder + "/" + name;
    if (IsExecutable(path)) return path;
  }
  const std::string here = "./" + name;
  if (IsExecutable(here)) return here;
  if (Exists(here)) return NotExecutable(here);
  std::string hint = SimilarFileHint(here);
  if (hint.empty()) {
    std::vector<std::string> names;
    for (const std::string& folder : folders) AppendNames(folder, names);
    const std::optional<std::string> nearest = FindNearest(name, names);
    if (nearest) hint = "Did you mean " + *nearest + "?";
  }
  return NotFound(name, " in PATH or in this folder", hint);
}

std::string SimilarFileHint(const std::string& path) {
  const fs::path file(path);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (!IsFolder(folder)) return "There is no folder " + folder.string() + ".";
  std::vector<std::string> names;
  AppendNames(folder, names);
  const std::optional<std::string> nearest = FindNearestFile(file.filename().string(), names);
  if (!nearest) return "";
  return "Did you mean " + (file.has_parent_path() ? (folder / *nearest).string() : *nearest) + "?";
}

}  // namespace ddprun::launcher
