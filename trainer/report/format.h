// Formats numbers for people. Pure.
#pragma once

#include <string>

namespace ddprun::trainer {

// Returns three significant digits: "123456" -> "123k", "1234567" -> "1.23M"; or "nan", "inf".
std::string ShortNumber(double value);

// Returns a duration: "0:42", "12:03", "3:12:03", "2d 04:00:00". Negative or non-finite: "?".
std::string Duration(double seconds);

// Returns a loss with four decimals, or with an exponent if four decimals would show nothing.
std::string LossText(double value);

// Returns a size: "512 bytes", "3.41 MiB", "12 GiB".
std::string ByteText(double bytes);

// Returns a number such as "3.00e-04".
std::string Exponent(double value);

}  // namespace ddprun::trainer
