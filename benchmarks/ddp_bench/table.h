// Results as a Markdown table.
#pragma once

#include <string>
#include <vector>

namespace ddprun::bench {

// The middle value; of an even number the upper one. 0 for none.
double Median(std::vector<double> values);

// "12.3 us", "4.56 ms", "1.20 s".
std::string TimeText(double seconds);
// "4 KiB", "25 MiB".
std::string SizeText(double bytes);

// On stdout; the first row is the header.
void PrintTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace ddprun::bench
