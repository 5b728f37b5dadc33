// Prints results as a Markdown table.
#pragma once

#include <string>
#include <vector>

namespace ddprun::bench {

// Returns the middle value, of two middle values the upper one; 0 if there are no values.
double Median(std::vector<double> values);

// Returns "12.3 us", "4.56 ms", "1.20 s".
std::string TimeText(double seconds);
// Returns "4 KiB", "25 MiB".
std::string SizeText(double bytes);

// Prints to stdout. The first row is the header.
void PrintTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace ddprun::bench
