#include "launcher/hosts/host_orders.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace ddprun::launcher {

namespace {

// Names of a host's, a login's or a terminal's own variables; those with "*" are beginnings.
constexpr auto kOwn = std::to_array<std::string_view>(
    {"HOME",    "USER",  "LOGNAME", "SHELL",           "MAIL",       "HOSTNAME",
     "HOST",    "PWD",   "OLDPWD",  "SHLVL",           "_",          "TERM",
     "COLUMNS", "LINES", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "KRB5CCNAME",
     "TMUX*",   "STY",   "SSH_*",   "XDG_*",           "DBUS_*",     "DDPRUN_JOB_ID"});

bool IsOwn(std::string_view name) {
  return std::ranges::any_of(kOwn, [name](std::string_view own) {
    return own.ends_with('*') ? name.starts_with(own.substr(0, own.size() - 1)) : name == own;
  });
}

}  // namespace

// The numbers of arguments and variables, then all texts, each with a NUL behind it.
std::string WriteOrders(const HostOrders& orders) {
  std::string bytes;
  const auto add = [&bytes](const std::string& text) { bytes.append(text).push_back('\0'); };
  add(std::to_string(orders.args.size()));
  add(std::to_string(orders.env.size()));
  add(orders.folder);
  for (const std::string& arg : orders.args) add(arg);
  for (const std::string& entry : orders.env) add(entry);
  return bytes;
}

std::optional<HostOrders> TakeOrders(std::string& bytes) {
  std::vector<std::string> texts;
  size_t begin = 0;
  size_t wanted = 3;
  size_t args = 0;
  for (size_t end = bytes.find('\0'); end != std::string::npos && texts.size() < wanted;
       end = bytes.find('\0', begin)) {
    texts.push_back(bytes.substr(begin, end - begin));
    begin = end + 1;
    if (texts.size() > 2) continue;
    const auto count = static_cast<size_t>(ParseInt(texts.back()).value_or(0));
    wanted += count;
    if (texts.size() == 1) args = count;
  }
  if (texts.size() < wanted) return std::nullopt;
  bytes.erase(0, begin);
  const auto first = texts.begin() + 3;
  const auto last_arg = first + static_cast<std::ptrdiff_t>(args);
  return HostOrders{.folder = texts[2], .args = {first, last_arg}, .env = {last_arg, texts.end()}};
}

std::vector<std::string> SharedVariables(const Environment& env) {
  std::vector<std::string> shared = env.Entries();
  std::erase_if(shared, [](const std::string& entry) {
    return IsOwn(std::string_view(entry).substr(0, entry.find('=')));
  });
  return shared;
}

}  // namespace ddprun::launcher
