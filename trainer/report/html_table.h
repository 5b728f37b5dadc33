// Tables of a page in HTML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::trainer {

using Cells = std::vector<std::string>;  // HTML

// Returns the beginning of a table; Row() returns its rows, and kTableEnd ends it.
inline std::string TableOf(const Cells& heads) {
  std::string html = "<div class=\"wide\"><table><thead><tr>";
  for (const std::string& head : heads) html += "<th>" + head + "</th>";
  return html + "</tr></thead><tbody>\n";
}
inline constexpr std::string_view kTableEnd = "</tbody></table></div>\n";

inline std::string Row(const Cells& cells, bool bad = false) {
  std::string html = bad ? "<tr class=\"bad\">" : "<tr>";
  for (const std::string& cell : cells) html += "<td>" + cell + "</td>";
  return html + "</tr>\n";
}

}  // namespace ddprun::trainer
