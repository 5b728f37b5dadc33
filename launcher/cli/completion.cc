#include <algorithm>
#include <sstream>
#include <vector>

#include "base/text.h"
#include "launcher/cli/help_text.h"

namespace ddprun::launcher {

namespace {

// Returns all spellings of a flag, the long one first: "--tee", "-t".
std::vector<std::string> Spellings(const Flag& flag, bool with_dashes) {
  std::vector<std::string> spellings = {"--" + std::string(flag.name)};
  if (with_dashes && flag.name.find('_') != std::string_view::npos) {
    std::string dashed(flag.name);
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    spellings.push_back("--" + dashed);
  }
  std::stringstream names{std::string(flag.short_names)};
  for (std::string name; names >> name;) spellings.push_back("-" + name);
  return spellings;
}

// Returns the bash command that fills COMPREPLY with the values of a flag.
std::string BashValues(const Flag& flag) {
  switch (flag.completion) {
    case Completion::kChoices:
      return "COMPREPLY=($(compgen -W \"" + std::string(flag.choices) + "\" -- \"$cur\"))";
    case Completion::kFile:
      return "_ddprun_files -f";
    case Completion::kFolder:
      return "_ddprun_files -d";
    case Completion::kNothing:
      return "";
  }
  return "";
}

// Returns `text` in single quotes, with escapes for characters that _arguments interprets.
std::string ZshText(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string ZshValues(const Flag& flag) {
  switch (flag.completion) {
    case Completion::kChoices:
      return "(" + std::string(flag.choices) + ")";
    case Completion::kFile:
      return "_files";
    case Completion::kFolder:
      return "_files -/";
    case Completion::kNothing:
      return " ";
  }
  return " ";
}

constexpr std::string_view kBashHead = R"(# bash completion for ddprun

_ddprun_files() {
  local IFS=$'\n'
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen "$1" -- "$cur"))
}

_ddprun_value() {
  case "$1" in
)";

constexpr std::string_view kBashNames = R"(  esac
}

_ddprun_flags() {
)";

constexpr std::string_view kBashMiddle = R"(}

_ddprun() {
  local cur="${COMP_WORDS[COMP_CWORD]}" word i=1 flag=""
  COMPREPLY=()
  # Which flag is waiting for its value, and has the target come already?
  while ((i < COMP_CWORD)); do
    word="${COMP_WORDS[i]}"
    if [[ "$word" == "=" ]]; then
      ((i++))
      continue
    fi
    if [[ -n "$flag" ]]; then
      flag=""
    elif [[ "$word" == -* ]]; then
      case "$word" in
        )";

constexpr std::string_view kBashTail = R"bash()
          flag="$word"
          ;;
      esac
    else
      _ddprun_files -f
      return
    fi
    ((i++))
  done
  if [[ "$cur" == "=" ]]; then cur=""; fi
  if [[ -n "$flag" ]]; then
    _ddprun_value "$flag"
  elif [[ "$cur" == --*-* ]]; then
    COMPREPLY=($(compgen -W "$(_ddprun_flags | tr _ -)" -- "$cur"))
  elif [[ "$cur" == -* ]]; then
    COMPREPLY=($(compgen -W "$(_ddprun_flags)" -- "$cur"))
  else
    _ddprun_files -f
    if [[ -n "$cur" ]]; then
      COMPREPLY+=($(compgen -W ")bash";

constexpr std::string_view kBashEnd = R"bash(" -- "$cur") $(compgen -c -- "$cur"))
    fi
  fi
}

complete -F _ddprun ddprun
)bash";

}  // namespace

std::string BashCompletion(std::span<const Flag> flags, std::span<const Subcommand> subcommands) {
  std::vector<std::string> words;
  for (const Subcommand& command : subcommands) words.emplace_back(command.name);
  std::string values;
  std::vector<std::string> takes_value;
  std::string names;
  for (const Flag& flag : flags) {
    names += "  echo --" + std::string(flag.name) + "\n";
    if (flag.value.empty()) continue;
    const std::vector<std::string> spellings = Spellings(flag, true);
    takes_value.insert(takes_value.end(), spellings.begin(), spellings.end());
    const std::string command = BashValues(flag);
    if (!command.empty()) values += "    " + FormatList(spellings, "|") + ") " + command + " ;;\n";
  }
  return std::string(kBashHead) + values + std::string(kBashNames) + names +
         std::string(kBashMiddle) + FormatList(takes_value, "|") + std::string(kBashTail) +
         FormatList(words, " ") + std::string(kBashEnd);
}

std::string ZshCompletion(std::span<const Flag> flags) {
  std::string text = "#compdef ddprun\n\n_arguments -A '-*' \\\n";
  for (const Flag& flag : flags) {
    const std::vector<std::string> spellings = Spellings(flag, false);
    const bool repeatable = flag.name == "set" || flag.name == "sweep";
    for (const std::string& spelling : spellings) {
      const bool is_long = spelling.starts_with("--");
      text += "  '";
      text += repeatable ? "*" : "(" + FormatList(spellings, " ") + ")";
      text += spelling;
      if (!flag.value.empty() && is_long) text += "=";
      text += "[" + ZshText(flag.help) + "]";
      if (!flag.value.empty()) text += ":" + ZshText(flag.value) + ":" + ZshValues(flag);
      text += "' \\\n";
    }
  }
  return text + "  '1:target:_files' \\\n  '*:argument of target:_files'\n";
}

}  // namespace ddprun::launcher
